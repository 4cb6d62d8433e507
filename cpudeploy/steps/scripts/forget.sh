# Removes what a deployment leaves on a host: its state folder, and the weights only it used.
# Arguments: state (folder of all deployments), deployment, weights (folder).
set -eu
rm -f "$weights/refs/$deployment."*
if [ -d "$weights/trees" ]; then
    for tree in "$weights/trees"/*; do
        [ -d "$tree" ] || continue
        cat "$weights"/refs/* 2>/dev/null | grep -qxF -- "${tree##*/}" || rm -rf "$tree"
    done
    # A blob with one link is in no tree any more.
    find "$weights/blobs" -type f ! -name '*.meta' -links 1 2>/dev/null | while read -r blob; do
        rm -f "$blob" "$blob.meta"
    done
fi
rm -rf "${state:?}/${deployment:?}"
rmdir "$weights/refs" "$weights/trees" "$weights/blobs" "$weights/partial" "$weights" "$state" 2>/dev/null || true
