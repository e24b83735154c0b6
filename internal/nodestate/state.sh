
# Puts node state in place, as root, before local-fs.target.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
umask 022

say() { echo "Pando state: $*"; }

fail() {
	say "$*"
	exit 1
}

# again COMMAND...: until it works, telling why it does not, less and less often.
again() {
	n=0
	until out=$("$@" 2>&1); do
		n=$((n + 1))
		case $n in
		1 | 5 | 20 | *00) say "$what: ${out:-$1 failed}; waiting" ;;
		esac
		sleep 1
	done
}

mounted() { grep -q " $dir " /proc/mounts; }

attach() { mounted || mount -t "$type" -o "$options" "$what" "$dir"; }

# A disk is found by a name that only a person gives, a volume is there when the kernel has it. What is on it stays; empty, it gets a
# file system.
prepare() {
	[ "$kind" != volume ] || [ -e /sys/block/nbd1/pid ] || { echo "the server has not given the volume yet"; return 1; }
	[ -b "$what" ] || { echo "no such disk"; return 1; }
	found=$(blkid -p -o value -s TYPE "$what")
	case $? in
	0) ;;
	2)
		"mkfs.$type" -q -L pando-state "$what"
		return
		;;
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

# copy FROM TO: NFS and others have no room for ACLs, which cp -a insists on.
copy() {
	cp -a "$1" "$2" 2>/dev/null && return
	rm -rf "$2"
	mkdir "$2" && tar -C "$1" -cf - . | tar -C "$2" -xpf - --numeric-owner
}

# seed DIRECTORY NAME: the first time, what the image has there is copied, with owners and modes. It gets its name when it is
# whole, so that a copy that was broken off is made again.
seed() {
	if [ ! -e "$base/$2" ]; then
		rm -rf "$base/.new+$2"
		if [ -d "$1" ]; then
			copy "$1" "$base/.new+$2" || fail "$1 cannot be copied to $base: is it exported with no_root_squash?"
		else
			mkdir "$base/.new+$2" || fail "$base: cannot make a directory there"
		fi
		sync -f "$base"
		mv "$base/.new+$2" "$base/$2" || fail "$base/$2: cannot be made"
		sync -f "$base"
		say "$1 is kept from now on"
	fi
	mkdir -p "$1"
}

