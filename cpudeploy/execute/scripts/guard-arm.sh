# Arm a guard and have it watched by a process that lives on when we don't. Behind `lease.sh` and `guard.sh`.
#
# In: state, proc, token, name, generation, after_s, deadline_s, about (a line of JSON); revert and watcher,
# the texts of two scripts.
set -e
life
now
folder=$state/guard/$name
new=$state/guard.new.$generation
trap 'rm -rf "$new"' EXIT
trap 'exit 1' TERM INT HUP
mkdir -p "$state/guard" "$new"
printf '%s' "$revert" >"$new/revert.sh"
printf '%s' "$watcher" >"$new/watch.sh"
say "$about" >"$new/about"
echo "$token $after_s $deadline_s $life" >"$new/terms"
echo "$now" >"$new/renewed"
: >"$new/armed.$generation"
# An older one of the name makes room: taken back where it waits, left to its end where it runs.
if armed "$folder" && mv -T "$armed" "$folder/committed" 2>/dev/null; then :; fi
if test -e "$folder/fired"; then ended "$folder" || :; fi
rm -rf "$folder"
mv -T "$new" "$folder"
# Out of this session, whose end may end all that began in it; and out of the reach of our own group.
if ! { test -d /run/systemd/system && command -v systemd-run >/dev/null &&
	systemd-run --quiet --collect --unit="cpudeploy-guard-$generation" --description="cpudeploy guard $name" \
		sh "$folder/watch.sh" 2>/dev/null; }; then
	if command -v setsid >/dev/null; then detach=setsid; else detach=nohup; fi
	$detach sh "$folder/watch.sh" </dev/null >/dev/null 2>&1 &
fi
