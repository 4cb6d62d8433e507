# Begins scripts that use apt: $log, and `attempt`, which waits for whoever else holds apt's locks.
set -eu
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l APT_LISTCHANGES_FRONTEND=none
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# apt waits for dpkg's lock without a word and, on older releases, not at all for the package lists: we wait
# ourselves, at least five minutes, and say who holds it.
attempt() {
    tries=0
    until apt-get -q -y -o DPkg::Lock::Timeout=5 -o Acquire::Retries=3 "$@" >"$log" 2>&1; do
        tries=$((tries + 1))
        holder=$(grep -i -m1 'could not get lock' "$log" || true)
        if [ -z "$holder" ] || [ "$tries" -ge 60 ]; then
            tail -n 15 "$log" >&2
            return 1
        fi
        echo "waiting: $holder"
        sleep 5
    done
}
