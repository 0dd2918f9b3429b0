# shellcheck shell=sh disable=SC2034  # catalina.sh reads this before it starts Java
HEAP="-Xms160m -Xmx160m"
PORT=${PORT:-8080}
GC_LOG="-Xlog:gc:file=/var/log/tomcat10/gc.log:time,uptime:filecount=2,filesize=4m"
CATALINA_OPTS="$HEAP $GC_LOG -Dport=$PORT"
