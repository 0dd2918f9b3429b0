#!/bin/sh
# Purpose: start the daemon of this container again, or start it if it has ended.
# Usage:   restart [NAME]; NAME is for the reader only
# Exit:    0 it has started again, 1 it has not within 15 s
set -eu
cd /run/supervisor
before=$(cat state)
echo $$ >asker
kill -USR1 "$(cat pid)"
i=0
while [ "$i" -lt 300 ]; do
    now=$(cat state)
    if [ "$now" != "$before" ] && [ "${now%% *}" = 1 ]; then exit 0; fi
    i=$((i + 1))
    sleep 0.05
done
echo "it did not start again" >&2
exit 1
