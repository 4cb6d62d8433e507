# An edit is over: what the file was before is needed no more. Argument: kept, the folder that holds it.
set -eu
rm -rf -- "$kept"
rmdir -- "${kept%/*}" 2>/dev/null || true # others may be kept there
