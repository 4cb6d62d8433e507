# Puts daemon.json back to what it was kept as, if it still is what we wrote, and brings the engine back to it:
# as the guard of an edit without anybody's help, or as its revert. Begins with docker.sh.
# Arguments: path, of daemon.json; kept, the folder that knows; token, of the edit it must be about.
set -eu
[ "$(cat "$kept/token" 2>/dev/null)" = "$token" ] || { echo "nothing was changed"; exit 0; }
file=$(readlink -f -- "$path") || file=$path

place() { # one of kept's files over the real one, which keeps its mode and owner
    if ! [ -e "$kept/$1" ]; then
        rm -f -- "$file"
        return
    fi
    new="$file.cpudeploy.$$"
    if [ -e "$file" ]; then cp -a -- "$file" "$new"; else : >"$new" && chmod 0644 "$new"; fi
    cat "$kept/$1" >"$new"
    mv -f -- "$new" "$file"
}

forget() {
    rm -rf -- "$kept"
    rmdir -- "${kept%/*}" 2>/dev/null || true
}

sha256=
if [ -e "$file" ]; then
    sha256=$(sha256sum <"$file")
    sha256=${sha256%% *}
fi
if ! grep -qxF "sha256:$sha256" "$kept/wrote"; then
    # Not touched yet, or somebody else's since: then it is theirs, and the engine only has to run.
    echo "the file is not what was written: left as it is"
    answers || restart_engine
    forget
    exit 0
fi
# Started since, or not at all: then by a file it must not have, or could not start with. With the one for
# the restart containers outlive it, if the engine that ends knows it, too.
if [ /var/run/docker.pid -nt "$kept/token" ] || ! answers; then
    place restarted
    if answers; then reload_engine || true; fi
    restart_engine
fi
place reloaded
rc=0
reload_engine || rc=$?
place was
forget
exit "$rc"
