# One weights file into <dir>/blobs/<sha256>, resumed, and hashed while it arrives: what every way of
# bringing it has in common. `fetch.sh` or `receive.sh` follows this text.
#
# Assigned before this text: dir, sha, size (bytes), state (cpudeploy's state folder), patience (seconds to
# wait for another download of the same file), stall (seconds without a byte after which it is over).
# Standard output, a line each: `have BYTES` every second, `space NEEDED AVAILABLE`, `error TEXT`, and at
# the end `end CODE`.
# Exit: 0 there and verified, 10 a program is missing (`error` names it), 11 no space, 12 wrong checksum
# (partial removed), 13 another download holds it, 14 it broke off (`error` tells), 15 curl too old to be
# trusted with a token, 16 the server can't resume (partial removed), 17 the file is longer than said
# (partial removed).
# Needs sh and coreutils.

set -u
LC_ALL=C
export LC_ALL
umask 022

case $dir in "$state"/*) [ -d "$state" ] || mkdir -p -m 0700 "$state" ;; esac
# umask 022 gives folders of ours 0755; what somebody else made keeps its permissions.
mkdir -p "$dir/blobs" "$dir/partial" || exit 1

blob=$dir/blobs/$sha
part=$dir/partial/$sha
lock=$dir/partial/.$sha.lock
work=$dir/partial/.$sha.work
length() { stat -c %s "$1" 2>/dev/null || echo 0; }
identity() { stat -c '%s %Y %i' "$1"; }
remember() { identity "$blob" >"$blob.meta.$$" && mv "$blob.meta.$$" "$blob.meta"; }

# Held already: as it was when it was hashed, or hashed now.
held() {
    [ -f "$blob" ] || return 1
    [ "$(cat "$blob.meta" 2>/dev/null)" = "$(identity "$blob")" ] && return 0
    if [ "$(length "$blob")" = "$size" ] && [ "$(sha256sum <"$blob")" = "$sha  -" ]; then
        remember
        return 0
    fi
    rm -f "$blob" "$blob.meta"
    return 1
}

# ---- One download a file at a time ---------------------------------------------------------------------

boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
# This shell's own pid: $$ is another one's in a subshell.
self=$(exec sh -c 'echo "$PPID"')
holder= # the file that says who downloads
ours=   # set while this download holds it

began() { # pid: when it began, in ticks since boot; nothing when it is gone
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # Its name may hold anything; the state follows it, and the 20th word from there is what we want.
    # shellcheck disable=SC2086 # words
    set -- ${stat##*) }
    case $1 in Z | X) return 1 ;; esac
    echo "${20}"
}

lives() { # file of lines `pid began boot`: does any of them run?
    while read -r pid ticks its_boot; do
        [ "$its_boot" = "$boot" ] && [ "$(began "$pid")" = "$ticks" ] && return 0
    done 2>/dev/null <"$1"
    return 1
}

say() { echo "$self $(began "$self") $boot"; }

wait_for_other() { # file of who holds it
    # A holder whose controller is gone ends by itself.
    tries=$((tries + 1))
    if [ $tries -gt "$patience" ]; then
        echo "error process $(tail -n 1 "$1" 2>/dev/null | cut -d ' ' -f 1) on this host is downloading it"
        exit 13
    fi
    echo "have $(length "$part")" || exit 1
    sleep 1
}

# The kernel keeps the lock for as long as anything of that download lives, so a lock is never stale and
# never taken over.
take_by_flock() {
    while :; do
        exec 9>>"$lock"
        if flock -n 9; then
            # The holder before us removes the file: then what we locked is no longer what others will open.
            [ "$lock" -ef /proc/self/fd/9 ] && break
            continue
        fi
        wait_for_other "$lock"
    done
    holder=$lock
    own=$lock
    say >"$holder"
}

# Without flock: everybody says who he is in a file of his own, and goes on only if then nobody else who
# lives has one. Of two at the same time at least the later one sees the other. The first by name stays and
# waits, those after it step back. Files of the dead bind nobody, and no name of one ever comes again.
take_by_word() {
    holder=$lock.$self.$(began "$self")
    own=$holder
    while :; do
        [ -e "$holder" ] || { say >"$work.$self" && mv "$work.$self" "$holder"; } || exit 1
        other= first=1
        for file in "$lock".*; do
            if [ "$file" = "$holder" ]; then
                [ -z "$other" ] || first=
            elif [ -e "$file" ]; then
                if lives "$file"; then other=$file; else rm -f "$file"; fi
            fi
        done
        [ -z "$other" ] && break
        [ -n "$first" ] || rm -f "$holder"
        wait_for_other "$other"
    done
}

own= # what of the lock is only ours and must go with us
worker=
leave() { # exit code
    trap '' HUP INT TERM PIPE
    if [ -n "$ours" ]; then
        for pid in $(cat "$work/source" 2>/dev/null) $worker; do kill "$pid" 2>/dev/null; done
        wait 2>/dev/null
        rm -rf "$work"
    fi
    [ -z "$own" ] || rm -f "$own"
    echo "end $1" 2>/dev/null
}
trap 'leave $?' EXIT
# The connection being gone shows as a broken pipe on the next line we tell.
trap 'exit 1' HUP INT TERM PIPE

# Ends here where the file is held; else the download is ours, there is room, and $have bytes are there.
begin() {
    held && { echo "have $size"; exit 0; }
    umask 077
    tries=0
    if command -v flock >/dev/null 2>&1; then take_by_flock; else take_by_word; fi
    ours=1
    rm -rf "$work"
    mkdir "$work" || exit 1
    umask 022
    held && { echo "have $size"; exit 0; }
    have=$(length "$part")
    if [ "$have" -gt "$size" ]; then
        rm -f "$part"
        have=0
    fi
    df -Pk "$dir" | {
        read -r _
        # What can't be told is no reason to refuse.
        read -r _ total _ available _ || exit 0
        margin=$((total / 20))
        [ $margin -gt 1048576 ] && margin=1048576
        needed=$(((size - have) / 1024 + margin))
        [ "$available" -ge $needed ] && exit 0
        echo "space $((needed * 1024)) $((available * 1024))"
        exit 1
    } || exit 11
    : >>"$part" || exit 1
}

# ---- The bytes -----------------------------------------------------------------------------------------

# A process of its own, so that it can say that it writes before it does; not without the one it works for.
# shellcheck disable=SC2016 # for the shell it is given to
writer='
part=$1 holder=$2 boot=$3 master=$4
set -- $(cat "/proc/$$/stat")
echo "$$ ${22} $boot" >>"$holder"
read -r line <"/proc/$master/stat" || exit 1
case ${line##*) } in [ZX]*) exit 1 ;; esac
exec tee -a "$part"'

# Begins to write what a command gives on its standard output behind what is there; then watches over it.
# Whoever the command is notes its pid in $work/source and may leave its complaint in $work/said.
bring() {
    exec 3<&0
    {
        [ "$have" -gt 0 ] && cat "$part"
        : >"$work/awaited"
        if [ "$have" -lt "$size" ]; then
            { "$@" <&3; echo $? >"$work/rc"; } |
                sh -c "$writer" sh "$part" "$holder" "$boot" "$self" 2>"$work/unwritten"
        else
            echo 0 >"$work/rc"
        fi
    } | sha256sum >"$work/sum" &
    worker=$!
    ticks=0 silent=0 last=$have
    while kill -0 "$worker" 2>/dev/null; do
        ticks=$((ticks + 1))
        if [ $ticks -lt 5 ]; then sleep 0.2 2>/dev/null || sleep 1; else sleep 1; fi
        now=$(length "$part")
        echo "have $now" || exit 1
        if [ -s "$work/unwritten" ]; then
            echo "error $(head -n 1 "$work/unwritten")"
            exit 14
        fi
        # Before it is awaited what is there already is hashed, which takes its time.
        if [ "$now" = "$last" ] && [ -e "$work/awaited" ]; then silent=$((silent + 1)); else silent=0; fi
        last=$now
        if [ $silent -gt "$stall" ] && [ "$now" -lt "$size" ]; then
            echo "error nothing arrived for $stall s"
            exit 14
        fi
    done
    wait "$worker"
    worker=
    rc=$(cat "$work/rc" 2>/dev/null || echo 1)
    have=$(length "$part")
    echo "have $have"
}

# All of it there, and the right bytes: then it is a blob.
finish() {
    if [ "$have" -gt "$size" ]; then
        rm -f "$part"
        exit 17
    fi
    if [ "$have" -lt "$size" ]; then
        [ "$rc" = 0 ] && echo "error the sender ended after $have of $size bytes"
        [ "$rc" = 0 ] || echo "error $(head -c 300 "$work/said" 2>/dev/null | head -n 1)"
        exit 14
    fi
    if [ "$(cat "$work/sum")" != "$sha  -" ]; then
        rm -f "$part"
        exit 12
    fi
    chmod 0644 "$part"
    sync "$part" 2>/dev/null
    mv "$part" "$blob" && remember
}
