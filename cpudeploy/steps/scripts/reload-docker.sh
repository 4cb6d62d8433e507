# Makes a running engine read its daemon.json again, without a restart. Argument: expect, a registry
# that it must afterwards list as allowed over plain HTTP.
set -eu
if [ -d /run/systemd/system ]; then systemctl reload docker
else kill -HUP "$(cat /var/run/docker.pid)"
fi
waited=0
until docker info --format '{{range $name, $index := .RegistryConfig.IndexConfigs}}{{if not $index.Secure}}{{$name}} {{end}}{{end}}{{range .RegistryConfig.InsecureRegistryCIDRs}}{{.}} {{end}}' | tr ' ' '\n' | grep -qxF -- "$expect"; do
    waited=$((waited + 1))
    if [ "$waited" -ge 20 ]; then
        echo "the engine was told to reload but does not list $expect as an insecure registry" >&2
        exit 1
    fi
    sleep 0.5
done
