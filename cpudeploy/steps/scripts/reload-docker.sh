# Makes a running engine read its daemon.json again, without a restart, unless it is as wanted already.
# Arguments: present, absent: words, registries that it must, or must not, allow plain HTTP to by name.
set -eu
format='{{range $name, $index := .RegistryConfig.IndexConfigs}}{{if not $index.Secure}}{{println $name}}{{end}}{{end}}{{range .RegistryConfig.InsecureRegistryCIDRs}}{{println .}}{{end}}'
wrong=
as_wanted() {
    listed=$(docker info --format "$format" 2>/dev/null) || { wrong="does not answer" && return 1; }
    for name in $present; do
        printf '%s\n' "$listed" | grep -qxF -- "$name" || { wrong="does not allow plain HTTP to $name" && return 1; }
    done
    for name in $absent; do
        printf '%s\n' "$listed" | grep -qxF -- "$name" && wrong="still allows plain HTTP to $name" && return 1
    done
    return 0
}
as_wanted && exit 0
if [ -d /run/systemd/system ]; then systemctl reload docker
else kill -HUP "$(cat /var/run/docker.pid)"
fi
waited=0
until as_wanted; do
    waited=$((waited + 1))
    if [ "$waited" -ge 20 ]; then
        echo "the engine was told to reload but $wrong" >&2
        exit 1
    fi
    sleep 0.5
done
