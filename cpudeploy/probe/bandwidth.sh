# Reads memory on all given processors at once and tells how many bytes a second that made. Two to four
# seconds, in which other work on the host gets slower. POSIX sh, and python3 or perl: their search for a byte
# and their comparison of strings are the C library's, which read as fast as memory gives.
#
# In, as assignments before this text: cpus (one of each core, by commas), spare (bytes that may be taken).
# Out, on stdout: bytes a second. On stderr, with code 1: why not.

floor=67108864 # bytes each processor reads at least

first_line() { # file: into $line, empty when it can't be read
	line=
	test -r "$1" && read -r line 2>/dev/null <"$1" || test -n "$line"
}

# ---- What is read must be far larger than all caches --------------------------------------------------

count=0
caches=0
seen=' '
for cpu in $(printf '%s' "$cpus" | tr ',' ' '); do
	count=$((count + 1))
	for folder in "/sys/devices/system/cpu/cpu$cpu/cache"/index[0-9]*; do
		first_line "$folder/level" || continue
		test "$line" = 3 || continue
		first_line "$folder/shared_cpu_list" || continue
		case $seen in *" $line "*) continue ;; esac
		seen="$seen$line "
		first_line "$folder/size" || continue
		case $line in
		*[0-9]K) caches=$((caches + ${line%K} * 1024)) ;;
		*[0-9]M) caches=$((caches + ${line%M} * 1048576)) ;;
		esac
	done
done
test "$caches" -gt 0 || caches=134217728
each=$((caches * 4 / count))
test "$each" -ge "$floor" || each=$floor
if test "$((each * count))" -gt "$spare"; then
	echo "it takes $((each * count / 1048576)) MiB of free memory, there are $((spare / 1048576))" >&2
	exit 1
fi

# ---- The readers begin together; the best of three times half a second counts ---------------------------

with_python() {
	"$1" - "$each" "$cpus" <<'END'
import os
import sys
import time

each, cpus = int(sys.argv[1]), [int(cpu) for cpu in sys.argv[2].split(",")]


def reader(cpu, ready, start, result):
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        pass
    data = bytearray(b"x") * each
    os.write(ready, b".")
    begin = float(os.read(start, 64))
    rates = []
    for window in range(3):
        time.sleep(max(0.0, begin + 0.6 * window - time.monotonic()))
        since, done = time.monotonic(), 0
        while time.monotonic() - since < 0.5:
            data.find(b"\0")
            done += each
        rates.append(done / (time.monotonic() - since))
    os.write(result, (" ".join("%d" % rate for rate in rates) + "\n").encode())


ready, result = os.pipe(), os.pipe()
starts = [os.pipe() for _ in cpus]
children = []
for cpu, start in zip(cpus, starts):
    child = os.fork()
    if not child:
        try:
            os.close(start[1])
            reader(cpu, ready[1], start[0], result[1])
        finally:
            os._exit(0)
    children.append(child)
os.close(ready[1])
os.close(result[1])
for _ in cpus:
    if not os.read(ready[0], 1):
        sys.exit("a reader ended early, most likely for want of memory")
begin = b"%.6f" % (time.monotonic() + 0.05)
for start in starts:
    os.write(start[1], begin)
with os.fdopen(result[0]) as told:
    lines = [line.split() for line in told]
if len(lines) != len(cpus):
    sys.exit("a reader ended early, most likely for want of memory")
print(max(sum(int(line[window]) for line in lines) for window in range(3)))
END
}

with_perl() {
	perl - "$each" "$cpus" <<'END'
use strict;
use warnings;

# The smallest perl there is knows whole seconds only: the readers count what they do within each of three.
my ($each, $cpus) = @ARGV;
my @cpus = split /,/, $cpus;
pipe(my $ready, my $tell_ready) or die "pipe: $!\n";
pipe(my $result, my $tell_result) or die "pipe: $!\n";
my @starts;
for my $cpu (@cpus) {
    pipe(my $start, my $tell_start) or die "pipe: $!\n";
    defined(my $child = fork) or die "fork: $!\n";
    if (!$child) {
        close $tell_start;
        system("taskset -pc $cpu $$ >/dev/null 2>&1");
        my ($one, $other) = ("x" x ($each / 2), "x" x ($each / 2));
        syswrite $tell_ready, ".";
        sysread $start, my $begin, 64;
        my ($now, $same, @done) = (time, 0, 0, 0, 0);
        while (($now = time) < $begin + 3) {
            if ($now < $begin) { select undef, undef, undef, 0.002; next; }
            $same += $one eq $other;
            $done[$now - $begin] += $each;
        }
        syswrite $tell_result, "@done\n";
        exit 0;
    }
    push @starts, $tell_start;
}
close $tell_ready;
close $tell_result;
my $early = "a reader ended early, most likely for want of memory\n";
for (@cpus) { sysread $ready, my $one, 1 or die $early; }
my $begin = time + 1;
syswrite $_, $begin for @starts;
my @lines = <$result>;
die $early if @lines != @cpus;
my @sums = (0, 0, 0);
for my $line (@lines) {
    my @rates = split ' ', $line;
    $sums[$_] += $rates[$_] for 0 .. 2;
}
my ($best) = sort { $b <=> $a } @sums;
print "$best\n";
END
}

# In small pages a processor spends as much on finding memory as on reading it (on virtual machines half).
GLIBC_TUNABLES=glibc.malloc.hugetlb=1
export GLIBC_TUNABLES

for python in python3 /usr/libexec/platform-python; do
	if command -v "$python" >/dev/null 2>&1 && "$python" -c '' 2>/dev/null; then
		with_python "$python"
		exit
	fi
done
if command -v perl >/dev/null 2>&1 && perl -e 1 2>/dev/null; then
	with_perl
	exit
fi
echo "the host has neither python3 nor perl" >&2
exit 1
