# By the host's own curl from one URL. Behind `weights.sh`.
# Standard input: the configuration for curl (address, headers, limits), so that nothing secret is in argv.

config=$(cat)
begin
command -v curl >/dev/null 2>&1 || { echo "error curl"; exit 10; }
# Before 7.58 curl sent our token on to whatever host it was redirected to, before 7.64 also our cookie.
least=
case $config in *\"Authorization:*) least=58 ;; esac
case $config in *\"Cookie:*) least=64 ;; esac
if [ -n "$least" ]; then
    version=$(curl --version 2>/dev/null) && version=${version#curl } && version=${version%% *}
    major=${version%%.*} minor=${version#*.} minor=${minor%%.*}
    [ "$major" -gt 7 ] || { [ "$major" -eq 7 ] && [ "$minor" -ge "$least" ]; } || exit 15
fi

download() {
    printf '%s\n' "$config" |
        sh -c 'echo $$ >"$1/source"; exec curl --config - --continue-at "$2" 2>"$1/said"' sh "$work" "$have"
}
bring download
# 33: the server ignored our range; 36: it could not resume.
if [ "$rc" = 33 ] || [ "$rc" = 36 ]; then
    rm -f "$part"
    exit 16
fi
finish
