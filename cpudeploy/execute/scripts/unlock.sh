# Who holds the host; with `break` set to his token, not any more. Behind `lease.sh`.
#
# In: state, proc, break. Tells `TOKEN EXPIRED SINCE SILENT ABOUT`, `damaged` for what names nobody,
# `gone` when what was to be broken is no longer there, or nothing when nobody holds it.
life
if test "$break" = damaged; then
	if ! why=$(mv -T "$state/lease" "$state/lease.damaged.$$" 2>&1); then
		if damaged; then say "$why" >&2 && exit 1; fi
		echo gone
	fi
	rm -rf "$state/lease.damaged.$$"
	exit 0
fi
if test -n "$break"; then
	if ! drop "$break"; then
		if test -d "$state/lease/$break"; then
			say "$state/lease can't be moved away" >&2
			exit 1
		fi
		echo gone
	fi
	rmdir "$state/lease" 2>/dev/null
	exit 0
fi
tries=0
while damaged && test "$tries" -lt 10; do
	tries=$((tries + 1))
	sleep 0.1
done
if look; then say "$holder $expired $since $silent $about"; elif damaged; then echo damaged; fi
