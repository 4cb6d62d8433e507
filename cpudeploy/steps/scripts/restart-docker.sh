# Restarts the engine, unless it was started after its daemon.json was last written. Begins with docker.sh.
# Argument: path, of daemon.json.
set -eu
if [ /var/run/docker.pid -nt "$path" ] && answers; then exit 0; fi
echo "restarting the engine"
restart_engine
