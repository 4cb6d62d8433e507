# Removes the secret files of one container, but for those of one release.
# Arguments: deployment, container, keep (a release, or empty).
set -eu
folder="/var/lib/cpudeploy/${deployment:?}/secrets/${container:?}"
[ -d "$folder" ] || exit 0
if [ -z "$keep" ]; then
    rm -rf "$folder"
    exit 0
fi
for entry in "$folder"/*; do
    [ "${entry##*/}" = "$keep" ] || rm -rf "$entry"
done
