#!/bin/sh
# Sum up a slow query log with pt-query-digest and print a verdict, by the rules of verdict.jq.
# Without a log, or with nothing in it, there is nothing to say: no alarm.
#
# Usage: look.sh LOG
set -eu
log=$1
if ! [ -s "$log" ]; then
    echo '{"alarm": false, "evidence": "there is no slow query log, or nothing in it"}'
    exit
fi
# It would skip a file that it must not read, and end well.
[ -r "$log" ] || { echo "$log: not readable" >&2; exit 3; }
# Its version check asks the internet.
said=$(timeout 20 pt-query-digest --no-version-check --output json "$log") || exit 3
# Before the JSON there can be lines of text; where nothing was logged there is no JSON.
printf '%s\n' "$said" | sed -n '/^{/,$p' | jq -cn -f "${0%/*}/verdict.jq"
