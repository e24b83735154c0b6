
# Puts node state in place, as root, before local-fs.target.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
umask 022

say() { echo "Pando state: $*"; }

fail() {
	say "$*"
	echo "node state: $*" >"$waits"
	exit 1
}

# again COMMAND...: until it works, telling why it does not, less and less often. A mount may be tried for minutes.
again() {
	n=0 out=
	echo "node state waits for $what" >"$waits"
	until out=$("$@" 2>&1); do
		echo "node state waits for $what: ${out:-$1 failed}" >"$waits"
		n=$((n + 1))
		case $n in
		1 | 5 | 20 | *00) say "$what: ${out:-$1 failed}; waiting" ;;
		esac
		sleep 1
	done
	: >"$waits"
}

mounted() { grep -q " $dir " /proc/mounts; }

attach() { mounted || mount -t "$type" -o "$options" "$what" "$dir"; }

# make DEVICE: an image may have no program for ext4; Pando's makes one as well.
make() {
	if [ "$type" = ext4 ] && ! command -v mkfs.ext4 >/dev/null; then
		/run/pando/pando-init ext4 "$1" pando-state
	else
		"mkfs.$type" -q -L pando-state "$1"
	fi
}

# A disk is found by a name that only a person gives, a volume is there when the kernel has it. What is on it stays; empty, it gets a
# file system.
prepare() {
	[ "$kind" != volume ] || [ -e /sys/block/nbd1/pid ] || { echo "the server has not given the volume yet"; return 1; }
	[ -b "$what" ] || { echo "no such disk"; return 1; }
	found=$(blkid -p -o value -s TYPE -s PTTYPE "$what") # of a partition with nothing in it 0 or 2, as blkid's release has it
	case $?$found in
	0 | 2)
		make "$what"
		return
		;;
	0*) ;;
	*) return 1 ;;
	esac
	[ "$found" = "$type" ] || { echo "it has $found, and the group says $type"; return 1; }
	[ "$type" = ext4 ] && command -v fsck.ext4 >/dev/null || return 0 # the kernel replays the journal by itself
	fsck.ext4 -p "$what" >&2 || [ $? -le 1 ]
}

# The server may have made the volume larger.
enlarge() {
	case $type in
	ext4) resize2fs "$what" >/dev/null 2>&1 ;;
	xfs) xfs_growfs "$dir" >/dev/null 2>&1 ;;
	esac
}

case $kind in
directory) [ -z "$unit" ] || again systemctl start "$unit" ;;
*)
	mkdir -p "$dir"
	[ "$kind" = network ] || again prepare
	again attach
	[ "$kind" != volume ] || enlarge
	;;
esac
mkdir -p "$base" || fail "$base cannot be made: may this node write there, as root?"
rm -f "$list"

# copy FROM TO: NFS and others have no room for ACLs, which cp -a insists on.
copy() {
	cp -a "$1" "$2" 2>/dev/null && return
	rm -rf "$2"
	mkdir "$2" && tar -C "$1" -cf - . | tar -C "$2" -xpf - --numeric-owner
}

# seed DIRECTORY NAME: the first time, what the image has there is copied, with owners and modes. It gets its name when it is
# whole, so that a copy that was broken off is made again.
seed() {
	if [ -f "$base/$2" ] || { [ -f "$1" ] && [ ! -d "$base/$2" ]; }; then # the image has a file there, or had
		single "$1" "$2"
		return
	fi
	if [ ! -e "$base/$2" ]; then
		rm -rf "$base/.new+$2"
		if [ -d "$1" ]; then
			copy "$1" "$base/.new+$2" || fail "$1 cannot be copied to $base: is it exported with no_root_squash?"
		else
			mkdir "$base/.new+$2" || fail "$base: cannot make a directory there"
		fi
		sync -f "$base"
		mv "$base/.new+$2" "$base/$2" || fail "$base/$2: cannot be made"
		since "$2"
		sync -f "$base"
		say "$1 is kept from now on"
	fi
	mkdir -p "$1"
}

# single PATH NAME: a file is put in its place by a copy, and noted for those who copy it back.
single() {
	if [ -f "$base/$2" ]; then
		mkdir -p "${1%/*}"
		{ rm -f "$1.pando-new" && cp -p "$base/$2" "$1.pando-new" && mv -f "$1.pando-new" "$1"; } || fail "$1 cannot be put in its place"
	fi
	printf '%s\t%s\n' "$2" "$1" >>"$list"
}

# watch: from now on, what changes in files is kept, and the server is told what there is.
watch() {
	/bin/sh "$report" || say "what is kept cannot be told"
	systemctl --no-block start pando-state-report.service pando-state-report.timer
	[ -e "$list" ] || return 0
	while IFS='	' read -r _ path; do
		systemctl --no-block start "pando-kept@$(systemd-escape -p "$path").path"
	done <"$list"
	systemctl --no-block start pando-kept-last.service
}

