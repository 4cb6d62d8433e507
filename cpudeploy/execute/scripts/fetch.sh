# One weights file from one URL into <dir>/blobs/<sha256>: resumed, hashed while it arrives.
#
# Assigned before this text: dir, sha, size (bytes), state (cpudeploy's state folder).
# Standard input: the configuration for curl (address, headers, limits), so that nothing secret is in argv.
# Standard output, a line each: `have BYTES` every second, `space NEEDED AVAILABLE`, `error TEXT`.
# Exit: 0 there and verified, 10 a program is missing (`error` names it), 11 no space, 12 wrong checksum
# (partial removed), 13 another download holds it, 14 curl failed (`error` tells), 15 curl too old to be
# trusted with a token, 16 the server can't resume (partial removed), 17 the file is longer than said
# (partial removed).
# Needs sh, coreutils, flock (util-linux) and curl.

set -u
LC_ALL=C
export LC_ALL
config=$(cat)
umask 022

case $dir in "$state"/*) [ -d "$state" ] || mkdir -p -m 0700 "$state" ;; esac
mkdir -p "$dir/blobs" "$dir/partial" || exit 1
chmod 0755 "$dir" "$dir/blobs" "$dir/partial"

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
held && { echo "have $size"; exit 0; }

has() { command -v "$1" >/dev/null 2>&1 || { echo "error $1"; exit 10; }; }
has flock

# One download a file. The kernel keeps the lock for as long as anything of that download lives, curl
# included, so a lock is never stale and never taken over. The file holds a pid that ends it.
umask 077
tries=0
while :; do
    exec 9>>"$lock"
    if flock -n 9; then
        # The holder before us removes the file: then what we locked is no longer what others will open.
        [ "$lock" -ef /proc/self/fd/9 ] && break
        continue
    fi
    # A holder whose controller is gone ends within seconds, by itself.
    tries=$((tries + 1))
    [ $tries -gt 15 ] && { echo "error process $(cat "$lock") on this host is downloading it"; exit 13; }
    echo "have $(length "$part")" || exit 1
    sleep 1
done
echo $$ >"$lock"
rm -rf "$work"
mkdir "$work" || exit 1
umask 022

worker=
release() {
    trap '' HUP INT TERM PIPE
    [ -s "$work/curl" ] && kill "$(cat "$work/curl")" 2>/dev/null
    [ -n "$worker" ] && kill "$worker" 2>/dev/null
    wait 2>/dev/null
    rm -rf "$work" "$lock"
}
trap release EXIT
# The connection being gone shows as a broken pipe on the next line we tell.
trap 'exit 1' HUP INT TERM PIPE
held && { echo "have $size"; exit 0; }

has curl
case $config in *[Aa]uthorization*)
    # Before 7.58 curl sent our header on to whatever host it was redirected to.
    version=$(curl --version 2>/dev/null) && version=${version#curl } && version=${version%% *}
    major=${version%%.*} minor=${version#*.} minor=${minor%%.*}
    [ "$major" -gt 7 ] || { [ "$major" -eq 7 ] && [ "$minor" -ge 58 ]; } || exit 15 ;;
esac

have=$(length "$part")
if [ "$have" -gt "$size" ]; then
    rm -f "$part"
    have=0
fi
df -Pk "$dir" | {
    read -r _
    read -r _ total _ available _
    margin=$((total / 20))
    [ $margin -gt 1048576 ] && margin=1048576
    needed=$(((size - have) / 1024 + margin))
    [ "$available" -ge $needed ] && exit 0
    echo "space $((needed * 1024)) $((available * 1024))"
    exit 1
} || exit 11

: >>"$part" || exit 1
{
    [ "$have" -gt 0 ] && cat "$part"
    if [ "$have" -lt "$size" ]; then
        {
            printf '%s\n' "$config" |
                sh -c 'echo $$ | tee "$1/curl" >"$2"; exec curl --config - --continue-at "$3" 2>"$1/said"' \
                    sh "$work" "$lock" "$have"
            echo $? >"$work/rc"
        } | tee -a "$part"
    else
        echo 0 >"$work/rc"
    fi
} | sha256sum >"$work/sum" &
worker=$!
ticks=0
while kill -0 "$worker" 2>/dev/null; do
    ticks=$((ticks + 1))
    if [ $ticks -lt 5 ]; then sleep 0.2 2>/dev/null || sleep 1; else sleep 1; fi
    echo "have $(length "$part")" || exit 1
done
wait "$worker"
worker=
rc=$(cat "$work/rc" 2>/dev/null || echo 1)
have=$(length "$part")
echo "have $have"

# 33: the server ignored our range; 36: it could not resume.
if [ "$rc" = 33 ] || [ "$rc" = 36 ]; then
    rm -f "$part"
    exit 16
fi
if [ "$have" -gt "$size" ]; then
    rm -f "$part"
    exit 17
fi
if [ "$have" -lt "$size" ]; then
    [ "$rc" = 0 ] && echo "error the server ended after $have of $size bytes"
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
