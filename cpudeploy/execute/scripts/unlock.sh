# Who holds the host; with `break` set to his token, not any more. Behind `lease.sh`.
#
# In: state, proc, break. Tells `TOKEN EXPIRED SINCE SILENT ABOUT`, `damaged` for what names nobody,
# `gone` when what was to be broken is no longer there, or nothing when nobody holds it.
life
if test "$break" = damaged; then
	mv -T "$state/lease" "$state/lease.damaged.$$" 2>/dev/null || echo gone
	rm -rf "$state/lease.damaged.$$"
	exit 0
fi
if test -n "$break"; then
	drop "$break" || echo gone
	rmdir "$state/lease" 2>/dev/null
	exit 0
fi
tries=0
while damaged && test "$tries" -lt 10; do
	tries=$((tries + 1))
	sleep 0.1
done
if look; then say "$holder $expired $since $silent $about"; elif damaged; then echo damaged; fi
