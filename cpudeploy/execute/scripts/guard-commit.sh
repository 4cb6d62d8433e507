# Take a guard back. Behind `lease.sh` and `guard.sh`.
#
# In: state, proc, name. Tells `committed`, or `absent`, or `fired RC` once what it put back is back.
life
folder=$state/guard/$name
if armed "$folder"; then
	terms "$folder"
	if test "$its_life" = "$life" && mv -T "$armed" "$folder/committed" 2>/dev/null; then
		forget "$folder"
		echo committed
		exit
	fi
fi
if ! test -d "$folder"; then
	echo absent
	exit
fi
settled "$folder"
rc=
read -r rc <"$folder/rc"
echo "fired $rc"
