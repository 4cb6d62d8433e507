# Ways back that wait on the host: functions for the scripts that arm, watch, commit and settle them.
# Behind `lease.sh`.
#
# A guard is a folder `guard/NAME`: `revert.sh`, `about` (a line of JSON), `terms` (a line of
# `token after deadline life`), `renewed` (seconds of uptime), and `armed.GENERATION`. Whoever renames that
# decides what becomes of it, once: to `fired`, and then runs the way back; or to `committed`, and it is gone.
# A guard that fired has `log` and, once it has ended, `rc`.

terms() { # folder: $its_token $after $deadline $its_life
	its_token='' after='' deadline='' its_life=''
	read -r its_token after deadline its_life 2>/dev/null <"$1/terms"
	number "$after" || after=0
	number "$deadline" || deadline=300
}

armed() { # folder: $armed is the file, else fails
	for armed in "$1"/armed.*; do
		test -e "$armed" && return 0
	done
	return 1
}

decide() { # folder, file that says it is armed: it is ours to fire now; fails where another was first
	mv -T "$2" "$1/fired" 2>/dev/null || return 1
	note "$$" "$1/runs" || :
}

note() { # word, file: on a full disk nothing can be noted, and what is to be put back is put back all the same
	{ echo "$1" >"$2"; } 2>/dev/null
}

put_back() { # folder of a guard that is ours to fire
	terms "$1"
	note "$$" "$1/runs" || :
	log=$1/log.new
	# A first block of the disk for what it says: a full one must not end it in the middle.
	note "" "$log" || log=/dev/null
	HOME=${HOME:-/root} timeout -k 5 "$deadline" sh "$1/revert.sh" >>"$log" 2>&1 </dev/null
	rc=$?
	test "$log" = /dev/null || { tail -c 4000 "$log" >"$1/log"; } 2>/dev/null
	rm -f "$1/log.new"
	note "$rc" "$1/rc.new" && mv -f "$1/rc.new" "$1/rc"
}

fire() { # folder, file that says it is armed
	decide "$1" "$2" && put_back "$1"
}

watch() { # folder, generation: until it is committed, or nobody renewed it for too long
	terms "$1"
	now
	last=$now
	while sleep 1; do
		test -e "$1/armed.$2" || return 0
		found=
		read -r found 2>/dev/null <"$1/renewed"
		! number "$found" || last=$found
		now
		test $((now - last)) -lt "$after" || break
	done
	until decide "$1" "$1/armed.$2"; do # while nothing can be renamed on a disk gone read-only, it waits
		test -e "$1/armed.$2" || return 0
		sleep 1
	done
	name=${1##*/}
	audit "{\"event\":\"guard fired\",\"guard\":\"$name\"}"
	# Whoever let it come to this, and was not even ended, must not go on from what is put back: the host is
	# not his any more, and what he has under way is over before we begin.
	if test "$last" -ge 0 && drop "$its_token"; then
		rmdir "$state/lease"
		sleep 2
	fi
	put_back "$1"
}

renew_guards() {
	now
	for folder in "$state"/guard/*/; do
		folder=${folder%/}
		test -e "$folder/terms" || continue
		terms "$folder"
		test "$its_token" != "$token" || put_line "$folder/renewed" "$now"
	done
}

hurry() { # folder of an armed guard: its watcher lives by itself, so it is left to it
	put_line "$1/renewed" -1000000
	wait=0
	while armed "$1" && test "$wait" -lt 30; do
		wait=$((wait + 1))
		sleep 0.1
	done
	if armed "$1"; then fire "$1" "$armed"; fi
}

ended() { # folder of a guard that fired: wait for its end; fails where nobody runs it any more
	terms "$1"
	limit=$((deadline + 10))
	wait=0
	while ! test -e "$1/rc"; do
		runs=
		read -r runs 2>/dev/null <"$1/runs"
		test "$its_life" = "$life" && test "$wait" -lt $((limit * 5)) || return 1
		# One that just fired has not said yet who runs it.
		test "$wait" -lt 5 || kill -0 "${runs:-none}" 2>/dev/null || test -e "$1/rc" || return 1
		wait=$((wait + 1))
		sleep 0.2
	done
}

settled() { # folder: fired whatever state it was found in
	if armed "$1"; then
		terms "$1"
		if test "$its_life" = "$life"; then hurry "$1"; else fire "$1" "$armed"; fi
	fi
	if test -e "$1/fired"; then
		ended "$1" || put_back "$1"
	fi
}

forget() { # folder
	mv -T "$1" "$state/guard.gone.$$" 2>/dev/null
	rm -rf "$state/guard.gone.$$"
	rmdir "$state/guard" 2>/dev/null
	return 0
}
