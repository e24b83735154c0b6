
# Tells what this node keeps: at once when it is in place, and with its sizes when the boot is over, as: report.sh sizes. The agent sends it to the server.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
mode=$1
tab='	'

# kept: all that is there, whether it is still declared or not. A name is the path with + for each slash.
kept() {
	for p in "$base"/* "$base"/.[!.]*; do
		name=${p##*/}
		case $name in +pando | lost+found | .new+*) continue ;; esac
		[ -e "$p" ] || continue
		begun=$(cat "$base/+pando/since/$name" 2>/dev/null)
		bytes=-
		[ "$mode" != sizes ] || bytes=$(timeout 900 du -s -B1 "$p" 2>/dev/null | cut -f1)
		echo "kept$tab/$(echo "$name" | tr + /)$tab${begun:--}$tab${bytes:--}"
	done
}

# gone ID DIRECTORY: of a node that was deleted. What is removed has another name, so that it is removed to the end, whoever is at it.
gone() {
	[ "$mode" = sizes ] || return 0
	rest=${base%/*}/+removed+$1
	[ ! -d "${base%/*}/$2" ] || mv -T "${base%/*}/$2" "$rest" 2>/dev/null
	rm -rf "$rest"
	[ -e "$rest" ] || [ -e "${base%/*}/$2" ] || echo "done$tab$1"
}

all() {
	echo "on$tab$place$tab$on"
	cat "$told"
	kept
