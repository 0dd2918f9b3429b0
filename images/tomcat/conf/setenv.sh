# shellcheck shell=sh disable=SC2034  # catalina.sh reads this before it starts Java
HEAP="-Xms160m -Xmx160m"
PORT=${PORT:-8080}
CATALINA_OPTS="$HEAP -Dport=$PORT"
