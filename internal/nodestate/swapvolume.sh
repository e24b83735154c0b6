
# Gives a node swap space that the server has for it, as root. What follows keeps an outage of the server from stopping more than what was swapped out.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
set -e

fail() {
	echo "Pando swap: $*"
	exit 1
}

grep -qw memory /sys/fs/cgroup/cgroup.controllers 2>/dev/null ||
	fail "this system has no control groups of version 2, so anything could be swapped out, and wait for the server: use zram or disk"

while read -r key kb _; do
	[ "$key" != MemTotal: ] || mem=$kb
done </proc/meminfo

# reserve KB: what programs that may be swapped out leave to the system, for its memory and for what it has read of the root: 256 MiB and a sixteenth of
# the memory, half of it at most.
reserve=$((262144 + mem / 16))
[ $reserve -le $((mem / 2)) ] || reserve=$((mem / 2))

# setting UNIT SECTION LINES: comes before what the image says in a file of its own.
setting() {
	mkdir -p "/run/systemd/system/$1.d"
	printf '[%s]\n%s\n' "$2" "$3" >"/run/systemd/system/$1.d/00-pando-swap.conf"
}

# The system is never swapped out, nor is who logs in as root; and its programs stay in memory, as far as a reserve's half goes.
setting init.scope Scope "MemorySwapMax=0
MemoryMin=24M"
setting system.slice Slice "MemorySwapMax=0
MemoryMin=$((reserve / 2))K"
setting user-0.slice Slice "MemorySwapMax=0"
# Who may be swapped out comes to a limit before the memory is full: else anybody who wants memory would have to write to the swap space. That of all
# users is higher than that of one: root's logins are below it.
setting user-.slice Slice "MemoryHigh=$((mem - reserve))K"
setting machine.slice Slice "MemoryHigh=$((mem - reserve))K"
setting user.slice Slice "MemoryHigh=$((mem - reserve / 2))K"
# At the end of a boot there is nothing in it that is worth being read again.
setting "$(systemd-escape -p --suffix=swap "$device")" Unit "DefaultDependencies=no"

# What systemd took before there were control groups belongs to none, and could be swapped out. Executed again, it has its memory within its own.
systemctl daemon-reexec

n=0
until [ -e "/sys/block/${device#/dev/}/pid" ]; do
	n=$((n + 1))
	[ $n != 30 ] || echo "Pando swap: the server has not given the swap space yet; waiting"
	sleep 1
done
# systemd takes swap space out of use whose device it thinks is gone: it must have heard of this one.
udevadm settle -t 30 || true
mkswap "$device" >/dev/null
swapon --discard "$device"
