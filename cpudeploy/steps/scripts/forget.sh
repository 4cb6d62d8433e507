# Removes what a deployment leaves on a host: its state folder, and the weights only it used.
# Arguments: state (folder of all deployments), deployment, weights (folder).
set -eu
claims="$weights/claims/${deployment:?}"
# Only folders that this deployment named go, and only if no other one names them.
trees=$(cat "$weights/refs/$deployment".* 2>/dev/null | sort -u)
rm -f "$weights/refs/$deployment".*
printf '%s\n' "$trees" | while read -r tree; do
    [ -n "$tree" ] || continue
    cat "$weights"/refs/* 2>/dev/null | grep -qxF -- "$tree" && continue
    rm -rf "$weights/trees/$tree" "$weights/trees/.$tree."*
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
