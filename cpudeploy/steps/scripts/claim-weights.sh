# Says whose a model's files are, before the first byte of them arrives.
# Arguments: state (cpudeploy's folder), weights (folder), deployment, tree (id), files (lines of
# "sha256 name").
set -eu
umask 022
case "$weights" in "$state"/*) [ -d "$state" ] || mkdir -p -m 0700 "$state" ;; esac
mkdir -p "$weights/refs" "$weights/claims"
add() {
    grep -qxF -- "$2" "$1" 2>/dev/null || printf '%s\n' "$2" >>"$1"
}
add "$weights/refs/$deployment.fetched" "$tree"
printf '%s\n' "$files" | while read -r sha name; do
    [ -z "$sha" ] || add "$weights/claims/$deployment" "$sha"
done
