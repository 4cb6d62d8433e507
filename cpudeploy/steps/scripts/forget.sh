# Removes what a deployment leaves on a host: its state folder, and the weights only it used.
# Arguments: state (folder of all deployments), deployment, weights (folder).
set -eu
claims="$weights/claims/${deployment:?}"
rm -f "$weights/refs/$deployment."*
for tree in "$weights/trees"/* "$weights/trees"/.[!.]*; do
    [ -d "$tree" ] || continue
    name=${tree##*/}
    case "$name" in
    .*) name=${name#.} name=${name%.*} ;;
    esac
    cat "$weights"/refs/* 2>/dev/null | grep -qxF -- "$name" || rm -rf "$tree"
done
if [ -f "$claims" ]; then
    mine=$(cat "$claims")
    rm -f "$claims"
    printf '%s\n' "$mine" | while read -r sha; do
        [ -n "$sha" ] || continue
        cat "$weights"/claims/* 2>/dev/null | grep -qxF -- "$sha" && continue
        rm -f "$weights/partial/$sha"
        # A blob with one link is in no tree any more.
        [ -z "$(find "$weights/blobs/$sha" -links 1 2>/dev/null)" ] || rm -f "$weights/blobs/$sha" "$weights/blobs/$sha.meta"
    done
fi
rm -rf "${state:?}/$deployment"
rmdir "$weights/claims" "$weights/refs" "$weights/trees" "$weights/blobs" "$weights/partial" 2>/dev/null || true
# Only folders of ours go: an administrator's own weights folder stays.
case "$weights" in "$state"/*) rmdir "$weights" 2>/dev/null || true ;; esac
rmdir "$state" 2>/dev/null || true
