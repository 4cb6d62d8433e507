# Removes the secret files of one container. Arguments: deployment, container.
set -eu
rm -rf "/var/lib/cpudeploy/${deployment:?}/secrets/${container:?}"
