# Removes weights that nobody on this host needs. What somebody came to need since it was decided stays, and is told.
# Arguments: weights (folder); trees (ids), blobs, partial (sha256): what goes, a line each.
set -eu
[ -d "$weights" ] || exit 0
# Names that can't be read may be of what goes: then nothing does.
names() { # folder: what its files say
    for file in "$1"/*; do
        [ -e "$file" ] || continue
        cat "$file" || return 1
        echo
    done
}
named=$(names "$weights/refs")
claimed=$(names "$weights/claims")
lines() { printf '%s\n' "$1" | grep . || true; }
among() { printf '%s\n' "$1" | grep -qxF -e "$2"; }
# Folders of links that were never finished keep their blobs alive.
rm -rf "$weights"/trees/.[!.]*
lines "$trees" | while IFS= read -r tree; do
    if among "$named" "$tree"; then echo "stays: $tree is used again"; else rm -rf "$weights/trees/$tree"; fi
done
lines "$blobs" | while IFS= read -r sha; do
    blob="$weights/blobs/$sha"
    [ -e "$blob" ] || continue
    # With one link it is in no folder.
    if [ "$(stat -c %h "$blob")" -gt 1 ] || among "$claimed" "$sha"; then echo "stays: $sha is used again"
    else rm -f "$blob" "$blob.meta"
    fi
done
for file in "$weights"/blobs/*.meta; do [ -e "${file%.meta}" ] || rm -f "$file"; done
lines "$partial" | while IFS= read -r sha; do
    if among "$claimed" "$sha"; then echo "stays: $sha is awaited again"; else rm -f "$weights/partial/$sha"; fi
done
