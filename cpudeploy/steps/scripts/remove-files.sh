# Removes files, and their folder and the one above it where nothing else is in them. Argument: paths, a line each.
set -eu
printf '%s\n' "$paths" | while read -r path; do
    rm -f -- "$path"
    folder=${path%/*}
    { rmdir -- "$folder" && rmdir -- "${folder%/*}"; } 2>/dev/null || true
done
