# What holds a host for one controller: functions for the scripts that take, keep, judge and break a lease.
#
# In: state, the folder of everything; proc, /proc. The lease is the folder `lease` with one folder in it, named
# by the token of its holder: `about`, a line of JSON for people, `times`, a line of `taken renewed ttl life`
# (seconds of the host's uptime, seconds, and which run of the host it was), and `leaving`, once only guards are
# waited for.
# Every step from one holder to the next is one rename, which the kernel gives to one of any number of racers:
#   nobody → me      a folder built aside onto `lease`: fails where that holds anything
#   him → nobody     `lease/HIS` → aside, when his time is over: fails where he is no longer in it
#   me → nobody      `lease/MINE` → aside: fails where it was taken from me
# So whoever finds `lease/TOKEN` holds the host, and nobody else does; and nobody comes in by another door.
umask 077
LC_ALL=C
PATH=${PATH:-/usr/sbin:/usr/bin:/sbin:/bin}
export LC_ALL PATH

say() { # text: as it is, which echo of some shells does not do
	printf '%s\n' "$1"
}

audit() { # JSON: a line of the journal of events, with the host's time
	log=$state/audit.jsonl
	if test -e "$log" && test "$(wc -c <"$log")" -gt 1048576; then mv -f "$log" "$log.1"; fi
	say "{\"at\":\"$(date -u +%Y-%m-%dT%H:%M:%SZ)\",${1#?}" >>"$log"
}

number() { # word: does arithmetic understand it? What was damaged may hold anything
	case ${1#-} in '' | *[!0-9]* | 0?*) return 1 ;; esac
}

now() { # $now: seconds of uptime; no clock that anybody sets
	read -r now _ <"$proc/uptime"
	now=${now%%.*}
}

life() { # $life: this run of the host; of a container its first process tells, which the boot id does not
	read -r life <"$proc/sys/kernel/random/boot_id"
	read -r line <"$proc/1/stat"
	# shellcheck disable=SC2086 # words; the name before them may hold anything
	set -- ${line##*) }
	life=$life.${20}
}

look() { # $holder: token of who holds the host, else fails; $about, $silent, $since, $expired
	holder=
	for folder in "$state"/lease/*/; do
		test -d "$folder" || return 1
		holder=${folder%/}
		holder=${holder##*/}
	done
	about=
	read -r about 2>/dev/null <"$state/lease/$holder/about"
	taken=
	read -r taken renewed ttl its_life 2>/dev/null <"$state/lease/$holder/times"
	now
	test -d "$state/lease/$holder" || return 1 # given back while we looked
	expired=1
	since=0
	silent=0
	# Without its times it was written into a power cut.
	number "$taken" && number "$renewed" && number "$ttl" || return 0
	test "$its_life" = "$life" || return 0
	since=$((now - taken))
	silent=$((now - renewed))
	test "$silent" -gt "$ttl" || expired=0
}

put_line() { # file, text: as a whole; where the disk has no room for another file, over what is there
	{ say "$2" >"$1.new" && mv -f "$1.new" "$1"; } 2>/dev/null || say "$2" 1<>"$1"
}

write_times() { # folder, taken
	now
	put_line "$1/times" "${2:-$now} $now $ttl_s $life" # never shorter than before, as uptime only grows
}

held() { # is it still ours?
	test -d "$state/lease/$token"
}

built() { # what will be moved into place
	mkdir -p "$aside/$token" && say "$mine" >"$aside/$token/about" && write_times "$aside/$token"
}

damaged() { # what is there names nobody, and no rename goes onto it
	{ test -e "$state/lease" || test -L "$state/lease"; } && ! look
}

take() { # 0: ours, and $before who lost it; 1: another's, see `look`; 2: it can't be taken, $why
	aside=$state/lease.$token
	before=
	mine=$about
	patience=90
	tries=0
	while test "$tries" -lt 40; do
		tries=$((tries + 1))
		if ! why=$(built 2>&1); then
			rm -rf "$aside"
			# Once may be who gave it back, and took the empty folder of everything with it.
			test "$tries" -lt 3 || return 2
			sleep 0.1
			continue
		fi
		if why=$(mv -T "$aside" "$state/lease" 2>&1); then
			after_him
			sweep
			return 0
		fi
		if look; then
			if test "$expired" = 1; then
				drop "$holder"
			elif test -e "$state/lease/$holder/leaving" && test "$patience" -gt 0; then
				# Its controller is gone; what it left is being put back, which has an end.
				patience=$((patience - 1))
				tries=0
				sleep 0.5
			else
				rm -rf "$aside"
				return 1
			fi
			continue
		fi
		sleep 0.1 # somebody is giving it back, or taking it
	done
	rm -rf "$aside"
	return 2
}

drop() { # holder: not any more; fails where he was not
	now
	{ echo "$now" >"$state/lease/$1/dropped"; } 2>/dev/null || : # a full disk: he loses it all the same
	mv -T "$state/lease/$1" "$state/lease.dropped.$1" 2>/dev/null
}

after_him() { # $before: about whoever was dropped before us
	wait=
	for folder in "$state"/lease.dropped.*; do
		test -d "$folder" || continue
		read -r before 2>/dev/null <"$folder/about"
		dropped=
		read -r dropped 2>/dev/null <"$folder/dropped"
		now
		number "$dropped" && test $((now - dropped)) -gt 2 || wait=2
		rm -rf "$folder"
	done
	# What he had under way is ended within a second; nothing of ours begins beside it.
	test -z "$wait" || sleep "$wait"
}

sweep() { # what keepers left that died while they took or gave back
	now
	for times in "$state"/lease.*/times "$state"/lease.*/*/times; do
		read -r _ renewed _ its_life 2>/dev/null <"$times" || continue
		test "$its_life" != "$life" || ! number "$renewed" || test $((now - renewed)) -gt 600 || continue
		folder=${times#"$state/"}
		rm -rf "$state/${folder%%/*}"
	done
}

give_back() { # 0: it was ours until now
	mv -T "$state/lease/$token" "$state/lease.$token" 2>/dev/null || return 1
	rmdir "$state/lease" 2>/dev/null
	rm -rf "$state/lease.$token"
	rmdir "$state" 2>/dev/null
	return 0
}
