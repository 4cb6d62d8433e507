# Removes what a deployment wrote down of releases that are over. A release's own file goes last: as long as it is
# there, whoever looks finds the rest.
# Arguments: state (folder of all deployments), weights (folder), deployment; releases, refs, holds (containers),
# fetched (trees), claims (sha256): what goes, a line each; plans (how many marks of finished plans stay).
set -eu
umask 022
home="$state/${deployment:?}"
lines() { printf '%s\n' "$1" | grep . || true; }
without() { # file, lines that go
    [ -n "$2" ] && [ -f "$1" ] || return 0
    aside="${1%/*}/.${1##*/}.new"
    # 1: nothing is left; anything else is an error.
    grep -vxF -e "$2" "$1" >"$aside" || [ $? = 1 ]
    if [ -s "$aside" ]; then mv "$aside" "$1"; else rm -f "$1" "$aside"; fi
}
lines "$releases" | while IFS= read -r release; do rm -rf "$home"/secrets/*/"$release"; done
lines "$refs" | while IFS= read -r ref; do rm -f "$weights/refs/$ref"; done
without "$weights/refs/$deployment.fetched" "$fetched"
without "$weights/claims/$deployment" "$claims"
lines "$holds" | while IFS= read -r container; do rm -f "$home/held/$container.json"; done
[ ! -d "$home/plans" ] || (
    cd "$home/plans"
    # shellcheck disable=SC2012 # ids
    ls -t | tail -n +$((plans + 1)) | while IFS= read -r plan; do rm -f "./$plan"; done
)
lines "$releases" | while IFS= read -r release; do rm -f "$home/releases/$release.json"; done
