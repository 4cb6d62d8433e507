# Makes a model's folder of hard links to blobs, aside, then moves it into place.
# Arguments: weights (folder), tree (id), files (lines of "sha256 name"). Hard links keep one copy on
# disk however many models and releases share a file.
set -eu
umask 022
target="$weights/trees/$tree"
aside="$weights/trees/.$tree.$$"
# What an earlier run left when it was killed would keep its blobs alive for ever.
rm -rf "$weights/trees/.$tree."*
mkdir -p "$aside"
trap 'rm -rf "$aside"' EXIT
printf '%s\n' "$files" | while read -r sha name; do
    [ -n "$sha" ] || continue
    case "$name" in /* | ../* | */../* | */..) echo "refused file name: $name" >&2; exit 1 ;; esac
    case "$name" in */*) mkdir -p "$aside/${name%/*}" ;; esac
    ln -f "$weights/blobs/$sha" "$aside/$name"
done
chmod -R u=rwX,go=rX "$aside"
# An incomplete or altered folder from before is nobody's: complete ones are never planned again.
rm -rf "$target"
mv -T "$aside" "$target"
