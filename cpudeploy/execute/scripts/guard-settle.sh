# Bring home every guard and forget what was in flight. Behind `lease.sh` and `guard.sh`.
#
# In: state, proc. Tells a line a guard: `NAME RC`.
life
for folder in "$state"/guard/*/; do
	folder=${folder%/}
	test -d "$folder" || continue
	settled "$folder"
	rc=
	read -r rc 2>/dev/null <"$folder/rc"
	say "${folder##*/} ${rc:-nothing}"
	forget "$folder"
done
rm -rf "$state"/guard.new.* "$state"/guard.gone.* "$state/inflight.json" "$state/inflight.json.new"
