# Starts an installed Docker engine and waits until it answers.
set -eu
if [ -d /run/systemd/system ]; then systemctl enable --now docker >/dev/null 2>&1 || systemctl start docker
else service docker start
fi
waited=0
until docker version --format '{{.Server.Version}}' 2>/dev/null; do
    waited=$((waited + 1))
    if [ "$waited" -ge 60 ]; then
        echo "the engine does not answer 60 s after its start" >&2
        journalctl -u docker -n 15 --no-pager >&2 2>/dev/null || true
        exit 1
    fi
    sleep 1
done
