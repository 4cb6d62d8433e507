# Holds a host for the controller at the other end of standard input and output, for as long as it is there.
# Behind `lease.sh` and `guard.sh`.
#
# In: state, proc, token, about (a line of JSON), ttl_s, deployment, plan. Tells first one line:
#   taken [ABOUT]                  ours now; ABOUT is whose lease had expired
#   held SINCE SILENT ABOUT        another's
#   damaged               what is there names nobody, and stays until it is broken
#   failed WHY
# then answers each line:
#   renew                 ok       the lease and the guards armed under it live on
#   begin JSON, at JSON   ok, –    what is under way; `at` is not answered
#   end                   ok       nothing is
#   audit JSON            –        a line of the journal of events, with the host's time
#   finish USED JSON      ok       how it ended; USED 1: the plan is used up here
#   bye                   ok       given back
# or `lost ABOUT` when it is another's, `failed WHY` when it could not be done. When it ends, guards still armed
# under this token are fired: nobody is left to commit them.
trap '' HUP PIPE INT

journal() { # JSON
	say "$1" >"$state/inflight.json.new" || return 1
	# Onto the disk before anything is touched; a disk that takes its time must not cost us the lease.
	test "$word" = at || timeout 10 sync "$state/inflight.json.new"
	mv -f "$state/inflight.json.new" "$state/inflight.json"
}

use_up() { # JSON
	mkdir -p "$state/$deployment/plans" && say "$1" >"$state/$deployment/plans/$plan"
}

renew() {
	renew_guards
	write_times "$state/lease/$token" "$taken_at"
}

leave() { # bring home what is armed, then give the lease back; it is kept alive meanwhile
	held || return 0
	for folder in "$state"/guard/*/; do
		folder=${folder%/}
		terms "$folder"
		test "$its_token" = "$token" && armed "$folder" || continue
		: >"$state/lease/$token/leaving"
		{ hurry "$folder" && ended "$folder"; } &
		while kill -0 $! 2>/dev/null; do
			write_times "$state/lease/$token" "$taken_at" 2>/dev/null
			sleep 0.2
		done
	done
	give_back
}

answer() { # command…: ok, or what went wrong; what failed because we lost the lease is told with the next
	if said=$("$@" 2>&1); then echo ok; else say "failed $(say "$said" | tr '\n' ' ')"; fi
}

lost() {
	look || about=
	say "lost $about"
	exit
}

life
now
taken_at=$now
trap 'leave; exit' TERM
take
case $? in
0) say "taken $before" ;;
1)
	say "held $since $silent $about"
	exit
	;;
*)
	if damaged; then echo damaged; else say "failed $(say "$why" | tr '\n' ' ')"; fi
	exit
	;;
esac
while read -r word rest; do
	held || lost
	case $word in
	renew)
		if renew 2>/dev/null; then echo ok; elif held; then echo "failed it can't be written"; else lost; fi
		;;
	begin) answer journal "$rest" ;;
	at) journal "$rest" ;;
	end) answer rm -f "$state/inflight.json" ;;
	audit) audit "$rest" ;;
	finish)
		audit "${rest#* }"
		case $rest in 1*) answer use_up "${rest#* }" ;; *) echo ok ;; esac
		;;
	bye)
		leave
		echo ok
		exit
		;;
	esac
done
leave
