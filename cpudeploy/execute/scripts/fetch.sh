# By the host's own curl from one URL. Behind `weights.sh`.
# Standard input: the configuration for curl (address, headers, limits), so that nothing secret is in argv.

config=$(cat)
begin
command -v curl >/dev/null 2>&1 || { echo "error curl"; exit 10; }
case $config in *[Aa]uthorization*)
    # Before 7.58 curl sent our header on to whatever host it was redirected to.
    version=$(curl --version 2>/dev/null) && version=${version#curl } && version=${version%% *}
    major=${version%%.*} minor=${version#*.} minor=${minor%%.*}
    [ "$major" -gt 7 ] || { [ "$major" -eq 7 ] && [ "$minor" -ge 58 ]; } || exit 15 ;;
esac

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
