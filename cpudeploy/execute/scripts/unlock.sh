# Who holds the host; with `break` set to his token, not any more. Behind `lease.sh`.
#
# In: state, proc, break. Tells `TOKEN EXPIRED SINCE SILENT ABOUT`, `damaged` for a folder that names nobody,
# `gone` when what was to be broken is no longer there, or nothing when nobody holds it.
life
if test -n "$break"; then
	if test "$break" = damaged; then what=$state/lease; else what=$state/lease/$break; fi
	aside=$state/lease.broken.$$
	mv -T "$what" "$aside" 2>/dev/null || { echo gone && exit; }
	rmdir "$state/lease" 2>/dev/null
	rm -rf "$aside"
	exit
fi
tries=0
while test -d "$state/lease" && test "$tries" -lt 10; do
	if look; then
		say "$holder $expired $since $silent $about"
		exit
	fi
	tries=$((tries + 1))
	sleep 0.1
done
test ! -d "$state/lease" || echo damaged
