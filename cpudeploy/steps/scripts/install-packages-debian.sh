# Installs packages of the distribution on a Debian-like host. Begins with apt.sh. Argument: packages, words.
echo "refreshing package lists"
attempt update
echo "installing $packages"
# shellcheck disable=SC2086
attempt install --no-install-recommends $packages
