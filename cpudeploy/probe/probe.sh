# Tells everything about this host. POSIX sh and coreutils only; reads, never writes but to a temporary folder.
#
# In, as assignments before this text: weights_dir, questions (their number) and for each q1_kind, q1_key,
# q1_arg …; sysroot, a folder to look in instead of / (tests).
# Out, on stdout: records of a line `key code bytes`, that many bytes, and a newline.

sysroot=${sysroot-}
proc=$sysroot/proc
sys=$sysroot/sys
state=$sysroot/var/lib/cpudeploy

newline='
'

emit() { # key code text; a file's name with a line break in it is no key, and none of ours
	case $1 in *"$newline"*) return ;; esac
	printf '%s %s %s\n%s\n' "$1" "$2" "${#3}" "$3"
}

first_line() { # file: into $line, empty when it can't be read
	line=
	test -r "$1" && read -r line 2>/dev/null <"$1" || test -n "$line"
}

tell_file() { # key file: as text; code 1 with the reason when it can't be read, nothing when it isn't there
	test -e "$2" || return 0
	if test -p "$2"; then
		emit "$1" 1 "$2 is a pipe" # reading it would not end
	elif text=$(cat "$2" 2>&1); then
		emit "$1" 0 "$text"
	else
		emit "$1" 1 "$text"
	fi
}

tell() { # key command…: its stdout, or what it complained about
	key=$1
	shift
	if text=$("$@" 2>&1); then emit "$key" 0 "$text"; else emit "$key" "$?" "$text"; fi
}

# ---- The engine: slow to ask, so asked beside everything else -----------------------------------------

patience=20 # seconds; listing and inspecting together stay below our own deadline

ask() { # name command…: output to a file; its end as `name.code`
	name=$1
	shift
	timeout "$patience" "$@" >"$aside/$name" 2>"$aside/$name.stderr"
	echo "$?" >"$aside/$name.code"
}

ask_each() { # name listing-command -- inspecting-command: inspects whatever the listing names
	name=$1
	shift
	listing=
	while test "$1" != --; do listing="$listing $1" && shift; done
	shift
	# Twice: something listed may be gone when it is inspected.
	for _ in 1 2; do
		# shellcheck disable=SC2086 # our own words
		names=$(timeout "$patience" $listing 2>"$aside/$name.stderr")
		echo "$?" >"$aside/$name.code"
		test -n "$names" || return
		# shellcheck disable=SC2046,SC2086 # ids
		ask "$name" "$@" $(printf '%s\n' $names | sort -u)
		first_line "$aside/$name.code"
		case $line in 0 | 124) return ;; esac
	done
}

# The client looks names up in the API's JSON, where what is empty may be left out; `index` then says null.
field() { # container name: {{json of it}}
	printf '{{json (index %s "%s")}}' "$1" "$2"
}

label() { # container of Labels, name
	printf '{{with index %s "Labels"}}{{json (index . "io.cpudeploy.%s")}}{{else}}null{{end}}' "$1" "$2"
}

ours() { # name: {{json of it in a container's .Config}}, of ours alone
	printf '{{with index .Config "Labels"}}{{if index . "io.cpudeploy.deployment"}}{{json (index $.Config "%s")}}{{else}}null{{end}}{{else}}null{{end}}' "$1"
}

# Named fields only: environment and command may hold secrets. The command of ours is for comparing: nothing but
# its checksum leaves whoever reads this.
container_fields="[$(field . Id),$(field . Name),$(field .Config Image),$(field . Image),$(field .State Status)\
,$(field .State Running),$(field .State ExitCode),$(field .State OOMKilled),$(field . RestartCount)\
,$(field .HostConfig.RestartPolicy Name),$(field .State StartedAt),$(field .HostConfig CpusetCpus)\
,$(field .HostConfig CpusetMems),$(field .HostConfig NanoCpus),$(field .HostConfig CpuQuota),$(field .HostConfig CpuPeriod)\
,$(field .HostConfig Memory),$(field .HostConfig MemorySwap),$(field .HostConfig PortBindings)\
,$(field .NetworkSettings Ports),$(field .NetworkSettings Networks),$(field . Mounts),$(ours Cmd)\
,$(label .Config schema),$(label .Config deployment),$(label .Config model)\
,$(label .Config instance),$(label .Config release)]"
network_fields="[$(field . Id),$(field . Name),$(field . Driver),$(field . Internal),$(field .IPAM Config)\
,$(label . deployment)]"
# Listed, not inspected: the client's own list names the label, and there may be hundreds without a name.
volume_fields='[{{json .Name}},{{json (.Label "io.cpudeploy.deployment")}}]'
image_fields="[$(field . Id),$(field . RepoTags),$(field . RepoDigests),$(field . Size),$(field . Os)\
,$(field . Architecture),$(field . Variant)]"

docker=
aside=
if test -z "$sysroot"; then
	docker=$(command -v docker || { test -x /snap/bin/docker && echo /snap/bin/docker; })
	for folder in /tmp /run /dev/shm; do
		aside=$(mktemp -d "$folder/cpudeploy.XXXXXX" 2>/dev/null) && break
	done
	trap 'rm -rf "$aside"' EXIT
	trap 'exit 1' HUP INT TERM
fi
if test -n "$docker" && test -n "$aside"; then
	unset DOCKER_HOST DOCKER_CONTEXT
	ask version "$docker" version --format '{{json .}}' &
	ask info "$docker" info --format '{{json .}}{{println}}{{with .Info}}{{.DockerRootDir}}{{end}}' &
	ask_each containers "$docker" ps -aq --no-trunc -- "$docker" inspect --type container --format "$container_fields" &
	ask_each networks "$docker" network ls -q --no-trunc -- "$docker" network inspect --format "$network_fields" &
	ask volumes "$docker" volume ls --format "$volume_fields" &
	ask_each images "$docker" image ls -q --no-trunc -- "$docker" image inspect --format "$image_fields" &
fi

# ---- System ------------------------------------------------------------------------------------------

tell_file os-release "$sysroot/etc/os-release"
tell uname uname -sr
if test -z "$sysroot"; then
	tell machine uname -m
	tell long-bit getconf LONG_BIT
else
	tell_file machine "$sysroot/machine"
	tell_file long-bit "$sysroot/long-bit"
fi
tell page-size getconf PAGESIZE
tell clock date +%s
tell_file selinux "$sys/fs/selinux/enforce"
tools=
for tool in curl wget python3 ip ss systemctl systemd-run setsid timeout apt-get dpkg dnf yum rpm zypper apk \
	docker dockerd podman snap iptables nft ufw firewall-cmd lscpu numactl; do
	if command -v "$tool" >/dev/null; then tools="$tools $tool=1"; else tools="$tools $tool=0"; fi
done
emit tools 0 "$tools"

# ---- Processors and memory -----------------------------------------------------------------------------

# Identical lines once: flags of 256 processors are one line.
tell cpuinfo sort -u "$proc/cpuinfo"
unnamed=1
case $text in *[Mm]odel' '[Nn]ame*) unnamed= ;; esac
tell_file online "$sys/devices/system/cpu/online"
tell_file isolated "$sys/devices/system/cpu/isolated"
topology=
no_topology=
for folder in "$sys"/devices/system/cpu/cpu[0-9]*; do
	if first_line "$folder/topology/core_id"; then
		core=$line
	else
		# None of a processor that is off-line is as it should be.
		first_line "$folder/online" && test "$line" = 0 || no_topology=1
		continue
	fi
	first_line "$folder/topology/physical_package_id" && package=$line || package=-
	first_line "$folder/cpu_capacity" && capacity=$line || capacity=-
	first_line "$folder/cpufreq/cpuinfo_max_freq" && khz=$line || khz=-
	first_line "$folder/topology/book_id" && book=$line || book=-
	first_line "$folder/topology/drawer_id" && drawer=$line || drawer=-
	topology="$topology${folder##*/cpu} $package $core $capacity $khz $book $drawer
"
done
emit topology 0 "$topology"
test -n "$topology" || no_topology=1
# Lists of processors can't be read by the byte, as some shells do. Same order as above, a line each.
tell siblings cat "$sys"/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list
kinds=
for folder in "$sys"/devices/cpu_core "$sys"/devices/cpu_atom "$sys"/devices/cpu_lowpower; do
	test -r "$folder/cpus" && kinds="$kinds${folder##*/} $(cat "$folder/cpus")
"
done
emit kinds 0 "$kinds"
if test -n "$no_topology"; then
	tell_file cpuinfo-all "$proc/cpuinfo"
fi
# lscpu reads the same files, but knows names that the kernel doesn't, and ways that we don't.
if test -n "$no_topology$unnamed" && command -v lscpu >/dev/null; then
	tell lscpu lscpu ${sysroot:+-s "$sysroot"}
	tell lscpu-rows lscpu ${sysroot:+-s "$sysroot"} -p
fi
affinity=
memory_nodes=
if test -r "$proc/self/status"; then
	while read -r name value; do
		case $name in
		Cpus_allowed_list:) affinity=$value ;;
		Mems_allowed_list:) memory_nodes=$value ;;
		esac
	done <"$proc/self/status"
fi
emit affinity 0 "$affinity"
emit memory-nodes 0 "$memory_nodes"
nodes=
node_cpus=
for folder in "$sys"/devices/system/node/node[0-9]*; do
	test -r "$folder/meminfo" || continue
	size=0
	free=0
	huge=0
	while read -r _ _ name value _; do
		case $name in
		MemTotal:) size=$value ;;
		MemFree:) free=$value ;;
		HugePages_Total:) huge=$value ;;
		esac
	done <"$folder/meminfo"
	nodes="$nodes${folder##*/node} $size $free $huge
"
	node_cpus="$node_cpus$(cat "$folder/cpulist" 2>/dev/null)
"
done
emit nodes 0 "$nodes"
emit node-cpus 0 "$node_cpus"
tell_file meminfo "$proc/meminfo"

# ---- Limits: our cgroup, the engine's place, and all above them, as far as they can be seen -------------

tell_limits() { # mount point, path below it
	at=$2
	while :; do
		folder=$1${at%/}
		for file in cpu.max cpu.cfs_quota_us cpu.cfs_period_us cpuset.cpus.effective cpuset.effective_cpus \
			cpuset.cpus cpuset.mems.effective cpuset.effective_mems cpuset.mems memory.max memory.current \
			memory.limit_in_bytes memory.usage_in_bytes; do
			first_line "$folder/$file" && limits="$limits$file $folder $line
"
		done
		for file in memory.stat cpu.stat; do
			test -r "$folder/$file" || continue
			while read -r name value; do
				case $name in inactive_file | total_inactive_file | nr_periods | nr_throttled)
					limits="$limits$name $folder $value
"
					;;
				esac
			done <"$folder/$file"
		done
		case $at in / | '') break ;; esac
		at=${at%/*}
	done
}

tell_group_limits() { # the cgroup file of a process, `above` to begin at its group's parent
	test -r "$proc/self/mountinfo" || return 0
	while IFS=: read -r _ controllers path; do
		case ,$controllers, in
		,, | *,cpu,* | *,cpuset,* | *,memory,*) ;;
		*) continue ;;
		esac
		test -z "$2" || path=${path%/*}
		# Where is it mounted? Inside a container the mount's root may be a folder of the path.
		while read -r _ _ _ mount_root mount_point rest; do
			case $rest in
			*' - cgroup2 '*) test -z "$controllers" || continue ;;
			*' - cgroup '*)
				test -n "$controllers" || continue
				case ,${rest##* }, in *,"${controllers%%,*}",*) ;; *) continue ;; esac
				;;
			*) continue ;;
			esac
			case $path in
			/..*) below=/ ;;
			"$mount_root"/*) below=${path#"${mount_root%/}"} ;;
			"$mount_root") below=/ ;;
			*) if test "$mount_root" = /; then below=$path; else below=/; fi ;;
			esac
			tell_limits "$sysroot$mount_point" "$below"
			break
		done <"$proc/self/mountinfo"
	done <"$1"
}

limits=
if test -r "$proc/self/cgroup"; then
	tell_group_limits "$proc/self/cgroup" ''
	# Containers run beside the engine, not below this login: what narrows that place narrows them.
	if first_line "$sysroot/var/run/docker.pid" && test -r "$proc/$line/cgroup"; then
		tell_group_limits "$proc/$line/cgroup" above
	fi
	emit limits 0 "$limits"
else
	emit limits 1 "no $proc/self/cgroup"
fi

# How often a quota of its own stopped a container: both drivers' folders, both versions.
throttled=
for file in "$sys"/fs/cgroup/system.slice/docker-*.scope/cpu.stat "$sys"/fs/cgroup/docker/*/cpu.stat \
	"$sys"/fs/cgroup/cpu/system.slice/docker-*.scope/cpu.stat "$sys"/fs/cgroup/cpu/docker/*/cpu.stat; do
	test -r "$file" || continue
	periods=0
	stopped=0
	while read -r name value; do
		case $name in nr_periods) periods=$value ;; nr_throttled) stopped=$value ;; esac
	done <"$file"
	test "$periods" -gt 0 || continue
	name=${file%/cpu.stat}
	name=${name##*/docker-}
	name=${name##*/}
	throttled="$throttled${name%.scope} $periods $stopped
"
done
emit throttled 0 "$throttled"

# ---- Network -------------------------------------------------------------------------------------------

for file in tcp tcp6 fib_trie route if_inet6 ipv6_route; do
	tell_file "net/$file" "$proc/net/$file"
done
# Only this tells which interface an IPv4 address is of where it stands alone (/32, as some clouds give it).
if test -n "$sysroot"; then
	tell_file ip-addresses "$sysroot/ip-addresses"
elif command -v ip >/dev/null; then
	tell ip-addresses ip -o -4 addr show
fi

# ---- Ours: records and weights --------------------------------------------------------------------------

tell_file host-record "$state/host.json"
for file in "$state"/*/releases/*.json; do
	test -e "$file" && tell_file "release:${file#"$state/"}" "$file"
done
for file in "$state"/*/held/*.json; do
	test -e "$file" && tell_file "hold:${file#"$state/"}" "$file"
done
used=
for file in "$state"/*/plans/*; do
	test -e "$file" && used="$used${file#"$state/"}
"
done
emit used-plans 0 "$used"
tell_file in-flight "$state/inflight.json"

# Who holds the host, and what waits to put something back. Ages are of the uptime; which run of the host it is
# tells the boot id, and of a container its first process.
this_run() {
	first_line "$proc/sys/kernel/random/boot_id"
	boot=$line
	first_line "$proc/1/stat"
	# shellcheck disable=SC2086 # words; the name before them may hold anything
	set -- ${line##*) }
	first_line "$proc/uptime"
	emit this-run 0 "${line%%.*} $boot.${20-}"
}

lines_of() { # file…: their first lines, one a line, in $lines
	lines=
	for file in "$@"; do
		first_line "$file" || line=
		lines="$lines$line
"
	done
}

this_run
for folder in "$state"/lease/*; do
	test -d "$folder" || continue
	lines_of "$folder/times" "$folder/about"
	emit lease 0 "$lines"
done
for folder in "$state"/guard/*; do
	test -d "$folder" || continue
	word=
	for file in "$folder"/armed.*; do test -e "$file" && word=armed; done
	test -e "$folder/fired" && word=fired
	lines_of "$folder/terms" "$folder/renewed" "$folder/rc" "$folder/about"
	emit "guard:${folder##*/}" 0 "$word
$lines$(cat "$folder/log" 2>/dev/null)"
done
weights=$sysroot${weights_dir:-/var/lib/cpudeploy/weights}
if test -d "$weights"; then
	blobs=
	for file in "$weights"/blobs/*.meta; do
		first_line "$file" && blobs="$blobs${file##*/} $line
"
	done
	emit weights-meta 0 "$blobs"
	cd "$weights" || exit 1
	tell weights-blobs stat -c '%s %Y %i %n' blobs/*
	tell weights-partial stat -c '%s %n' partial/*
	# Not those that are being made, whose names begin with a dot.
	tell weights-trees find trees -path 'trees/.*' -prune -o -type f -exec stat -c '%i %F/%n' {} +
	cd / || exit 1
	for file in "$weights"/refs/*; do
		test -e "$file" && tell_file "weights-ref:${file##*/}" "$file"
	done
	for file in "$weights"/claims/*; do
		test -e "$file" && tell_file "weights-claim:${file##*/}" "$file"
	done
fi

# ---- Questions -------------------------------------------------------------------------------------------

answer_file() { # path, `text` when the content is wanted
	where=$sysroot$1
	if ! test -e "$where"; then
		emit "file:$1" 2 ''
		return
	fi
	facts=$(stat -L -c '%s %a %U' "$where" 2>&1) || { emit "file:$1" 1 "$facts" && return; }
	sum=-
	if test -f "$where" && test "${facts%% *}" -le 67108864; then
		sum=$(sha256sum <"$where") && sum=${sum%% *}
	fi
	content=
	if test "$2" = text && test -f "$where" && test "${facts%% *}" -le 1048576; then
		content=$(base64 -w 0 "$where") && content=" =$content"
	fi
	emit "file:$1" 0 "$facts $sum$content"
}

answer_disk() { # folder: the file system of its nearest existing parent
	where=$sysroot${1%/}
	while test -n "$where" && ! test -e "$where"; do where=${where%/*}; done
	tell "disk:$1" df -P -k "${where:-/}"
}

packages=
number=0
while test "$number" -lt "${questions:-0}"; do
	number=$((number + 1))
	eval "kind=\$q${number}_kind key=\$q${number}_key arg=\$q${number}_arg"
	case $kind in
	file) answer_file "$key" "$arg" ;;
	disk) answer_disk "$key" ;;
	package) packages="$packages $key" ;;
	setting) emit "setting:$key" 0 "$arg" ;;
	esac
done
if test -n "$packages"; then
	emit packages-asked 0 "$packages"
	# shellcheck disable=SC2086 # names
	if command -v dpkg-query >/dev/null; then
		emit packages-dpkg 0 "$(dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package} ${Version}\n' $packages 2>/dev/null)"
		emit packages-apt 0 "$(apt-cache policy $packages 2>/dev/null)"
	elif command -v rpm >/dev/null; then
		emit packages-rpm 0 "$(rpm -q --qf '%{NAME} %{VERSION}-%{RELEASE}\n' $packages 2>/dev/null)"
	fi
fi

# ---- The engine's answers --------------------------------------------------------------------------------

settings=$sysroot/etc/docker/daemon.json
tell_file daemon-json "$settings"
test -e "$settings" && tell daemon-json-sha256 sha256sum "$settings"
if test -n "$docker"; then
	# podman's shim is a script that says so, or a link to podman.
	shim=
	test "$(head -c 2 "$docker")" = '#!' && shim=$(head -c 400 "$docker")
	emit engine-client 0 "$(readlink -f "$docker")
$shim"
	# Does its process live, whether it answers or not?
	first_line /var/run/docker.pid && first_line "$proc/${line:-none}/comm" && test "$line" = dockerd &&
		emit engine-process 0 "$line"
	wait
	for name in version info containers networks volumes images; do
		code=
		test -n "$aside" && first_line "$aside/$name.code" && code=$line
		said=$(cat "$aside/$name" 2>/dev/null)
		# After its JSON stands the folder of everything it holds.
		case $said in *"$newline"/*)
			answer_disk "${said##*"$newline"}"
			said=${said%%"$newline"*}
			;;
		esac
		emit "engine-$name" "${code:-1}" "$said"
		emit "engine-$name-stderr" 0 "$(cat "$aside/$name.stderr" 2>/dev/null)"
	done
fi
emit end 0 ''
