# step.sh: sourced by build.sh. Runs the long steps so that a person sees them move, and leaves nothing behind
# however the build ends.
# shellcheck shell=bash
# shellcheck disable=SC2154  # work, out: set by build.sh

step_pid=

# step NAME COMMAND...: one line that grows by a dot a second; the command's own words are shown only if it fails.
step() {
  local name=$1 start=$SECONDS status=0
  shift
  printf 'vm image: %s ' "$name" >&2
  set -m                                      # a process group of its own, so that it can be ended whole
  "$@" > "$work/log" 2>&1 9>&- &
  step_pid=$!
  set +m
  while kill -0 "$step_pid" 2>/dev/null; do printf . >&2; sleep 1; done
  wait "$step_pid" || status=$?
  step_pid=
  echo " $((SECONDS - start)) s" >&2
  [ "$status" = 0 ] || { tail -20 "$work/log" >&2; echo "vm image: $name failed (exit $status)" >&2; exit 1; }
}

# A killed build may have left its dockerd, and a tree with this machine's /dev and /proc still mounted inside.
sweep() {
  local pid point
  for pid in $(pgrep -x dockerd); do
    ! tr '\0' '\n' < "/proc/$pid/cmdline" | grep -qxF "$work/tree/var/lib/docker" || kill "$pid"
  done
  awk -v in_work="$work/" 'index($2, in_work) == 1 { print $2 }' /proc/mounts | sort -r |
    while read -r point; do umount "$point"; done
  rm -rf --one-file-system "$work"
}

finish() {
  trap '' INT TERM HUP
  if [ -n "$step_pid" ]; then
    kill -TERM -- "-$step_pid" 2>/dev/null || true
    wait "$step_pid" 2>/dev/null || true
  fi
  sweep
}
trap finish EXIT
trap 'exit 130' INT TERM HUP
