
# What an operator wants done to the state, before anything that would write to it starts. Each order has an id; the ids of those that were done stand beside the
# state, in +pando, which nothing that is kept can be called. An order that a power cut broke off is gone on with, also when it was withdrawn meanwhile: half of a
# state is never left.
own=$base/+pando
mkdir -p "$own/since" || fail "$own cannot be made: may this node write there, as root?"
: >"$told"

tell() { (IFS='	' && echo "$*" >>"$told"); }

# each DIRECTORY DO: does it with the name of everything that is kept in a directory.
each() {
	for p in "$1"/* "$1"/.[!.]*; do
		[ -e "$p" ] || [ -L "$p" ] || continue
		case ${p##*/} in +pando | lost+found | .new+*) continue ;; esac
		"$2" "${p##*/}" || return 1
	done
}

durable() { sync -f "$base" || fail "$base: what was written is not on its disk"; }

finished() { grep -qxF "$1" "$own/done" 2>/dev/null; }

# record ID: the order was done. The last hundred are remembered: a server whose record was restored from a backup gives some again.
record() {
	{
		tail -n 99 "$own/done" 2>/dev/null
		echo "$1"
	} | write "$own/done" || exit 1
}

# write FILE: it has its name when it is whole, and on the disk.
write() {
	cat >"$1.new" && sync "$1.new" && mv -f "$1.new" "$1" || fail "$1 cannot be written"
	durable
}

# away NAME: from its place, at once; it is removed when the order is on record.
away() {
	[ -e "$base/$1" ] || [ -L "$base/$1" ] || return 0
	mkdir -p "$own/old" && rm -rf "$own/old/$1" && mv -T "$base/$1" "$own/old/$1" && rm -f "$own/since/$1" || fail "$base/$1 cannot be moved away"
}

# reset ID [NAME...]: away with these, or with everything. What is meant is written down first, so that it is done to the end.
reset() {
	id=$1
	shift
	if ! finished "$id"; then
		echo "${*:-*}" | write "$own/$id.reset" || exit 1
		settle
		say "reset, as was asked for: ${*:-everything}"
	fi
	tell "done" "$id"
}

# take ID DIRECTORY: the state becomes a copy of the one that another node has in a directory beside this. It is copied whole before anything is moved.
take() {
	id=$1 from=${base%/*}/$2 part=$own/$1.part
	if ! finished "$id"; then
		rm -rf "$part"
		if ! { [ -d "$from" ] && mkdir "$part" && each "$from" copied && sync -f "$base"; }; then
			why="it could not be copied: is there room?"
			[ -d "$from" ] || why="there is no $2 beside the state of this node"
			gaveup "$2"
			return
		fi
		become "$2"
	fi
	tell "done" "$id"
}

# through COMMAND...: tries it until it is done, or refused, which is the status 2. It holds up the boot, so it is not tried for ever, nor without a server: the next
# boot does it then.
through() {
	n=0
	until why=$("$@" 2>&1); do
		case $? in
		2) return 2 ;;
		3) n=39 ;;
		esac
		n=$((n + 1))
		case $n in
		1 | 5 | 20) say "$why; trying again" ;;
		40)
			say "$why; the next boot tries again"
			return 1
			;;
		esac
		sleep 5
	done
}

# send ID: what is kept goes to the server, for a node that does not find it.
send() {
	say "sending what is kept to the server, for another node"
	through /run/pando/pando-init state-send "$1" "$base"
	case $? in
	0) say "sent, as was asked for" ;;
	2)
		say "not sent to the server: $why"
		tell failed "$1" "$why"
		;;
	esac
}

# fetch ID DIGEST FROM: the state becomes a copy of what another node sent to the server. What comes is whole, and as it was sent, before anything is moved.
fetch() {
	id=$1 part=$own/$1.part
	if ! finished "$id"; then
		say "fetching from the server what $3 sent"
		through unpacked "$1" "$2"
		case $? in
		0) ;;
		1)
			rm -rf "$part"
			return
			;;
		*)
			gaveup "$3"
			return
			;;
		esac
		become "$3"
	fi
	tell "done" "$id"
}

unpacked() {
	rm -rf "$part" && mkdir "$part" || return 2
	/run/pando/pando-init state-fetch "$1" "$2" "$part" || return
	sync -f "$base" || return 2
}

# gaveup FROM: nothing was changed.
gaveup() {
	rm -rf "$part"
	say "not copied from $1: $why"
	tell failed "$id" "$why"
}

# become FROM: what was copied takes the place of what there is.
become() {
	mv -T "$part" "$own/$id.whole" || fail "$own/$id.whole cannot be made"
	durable
	settle
	say "copied from $1, as was asked for"
}

copied() {
	if [ -d "$from/$1" ] && [ ! -L "$from/$1" ]; then
		copy "$from/$1" "$part/$1"
	else
		cp -pP "$from/$1" "$part/$1"
	fi
}

moved() { mv -T "$in/$1" "$base/$1" && since "$1"; }

since() { date +%s >"$own/since/$1"; }

# settle does what was begun.
settle() {
	for m in "$own"/*.reset "$own"/*.whole "$own"/*.in; do
		[ -e "$m" ] || continue
		name=${m##*/}
		begun=${name%.*}
		finished "$begun" || case $m in
		*.reset) whatever "$m" ;;
		*.whole) each "$base" away && durable && mv -T "$m" "${m%.whole}.in" && durable && arrive "${m%.whole}.in" ;;
		*.in) arrive "$m" ;;
		esac || fail "$base: $m cannot be gone on with"
		finished "$begun" || record "$begun"
		rm -rf "$m" "${m%.whole}.in"
	done
}

# whatever FILE: a reset of what the file names.
whatever() {
	read -r names <"$1"
	case $names in
	'*') each "$base" away ;;
	*)
		for n in $names; do
			away "$n"
		done
		;;
	esac
	durable
}

arrive() {
	in=$1
	each "$in" moved && durable
}

# tidy removes what is of no use any more.
tidy() {
	rm -rf "$own/old" "$own"/*.part "$own"/*.new
}

settle
