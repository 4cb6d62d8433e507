# Makes a running engine read its daemon.json again, without a restart. Begins with docker.sh.
# Arguments: present, absent: words, registries that it must, or must not, allow plain HTTP to by name.
set -eu
format='{{range $name, $index := .RegistryConfig.IndexConfigs}}{{if not $index.Secure}}{{println $name}}{{end}}{{end}}{{range .RegistryConfig.InsecureRegistryCIDRs}}{{println .}}{{end}}'
reload_engine
[ -n "$present$absent" ] || exit 0
listed=$(docker info --format "$format")
for name in $present; do
    printf '%s\n' "$listed" | grep -qxF -- "$name" && continue
    echo "the engine has reloaded but does not allow plain HTTP to $name" >&2
    exit 1
done
for name in $absent; do
    printf '%s\n' "$listed" | grep -qxF -- "$name" || continue
    echo "the engine has reloaded but still allows plain HTTP to $name" >&2
    exit 1
done
