
# For copies between nodes that do not find each other's state: one sends it to the server, by its boot or while it runs, and another one fetches it there.
tell() { (IFS='	' && echo "$*" >>"$told"); }

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

# send ID live|still: what is kept goes to the server.
send() {
	say "sending what is kept to the server, for another node"
	through /run/pando/pando-init state-send "$1" "$base" "$2"
	case $? in
	0) say "sent, as was asked for" ;;
	2)
		say "not sent to the server: $why"
		tell failed "$1" "$why"
		;;
	esac
}
