
# Copies the files that are kept, and have changed, to where they are kept.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C

about() { stat -c %a:%u:%g "$1" 2>/dev/null; }

same() { cmp -s "$1" "$2" && [ "$(about "$1")" = "$(about "$2")" ]; }

# keep NAME PATH: what is kept has its name when it is whole, and on the disk.
keep() {
	[ -e "$base/$1" ] || date +%s >"$base/+pando/since/$1"
	rm -f "$base/.new+$1"
	cp -p "$2" "$base/.new+$1" && sync "$base/.new+$1" && mv -f "$base/.new+$1" "$base/$1" && sync "$base"
}

# Until nothing changes: what is written while this runs starts it no second time.
for round in 1 2 3 4 5; do
	changed=
	while IFS='	' read -r name path; do
		[ -f "$path" ] || continue # removed, it comes back with the next boot
		same "$path" "$base/$name" && continue
		changed=yes
		keep "$name" "$path" || { echo "Pando state: $path cannot be kept in $base"; exit 1; }
	done <"$list"
	[ -n "$changed" ] || break
	[ $round = 1 ] || sleep 1
done
