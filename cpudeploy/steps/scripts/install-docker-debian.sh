# Installs the distribution's Docker engine on a Debian-like host and waits until it answers. Begins with apt.sh.
echo "refreshing package lists"
attempt update
packages="docker.io iptables ca-certificates"
# From Debian 13 on the client is a package of its own.
if apt-cache show docker-cli >/dev/null 2>&1; then packages="$packages docker-cli"; fi
# With AppArmor in the kernel the engine refuses to start containers without its parser.
if [ "$(cat /sys/module/apparmor/parameters/enabled 2>/dev/null)" = Y ]; then packages="$packages apparmor"; fi
echo "installing $packages"
# shellcheck disable=SC2086
attempt install --no-install-recommends $packages
echo "waiting for the engine"
if [ -d /run/systemd/system ]; then
    systemctl enable --now docker >/dev/null 2>&1 || systemctl start docker
fi
waited=0
until docker version --format '{{.Server.Version}}' 2>"$log"; do
    waited=$((waited + 1))
    if [ "$waited" -ge 60 ]; then
        echo "the engine does not answer 60 s after its start:" >&2
        cat "$log" >&2
        journalctl -u docker -n 15 --no-pager >&2 2>/dev/null || true
        exit 1
    fi
    sleep 1
done
