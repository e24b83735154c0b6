#!/bin/busybox sh
# Mounts the root as a rival does, and prints on the console when it began and when the default target is reached.
B=/bin/busybox
$B mount -t proc proc /proc
read -r began _ </proc/uptime
$B mount -t sysfs sys /sys
$B mount -t devtmpfs dev /dev
$B mount -t tmpfs -o mode=755 run /run
for m in /modules/*.ko; do $B insmod "$m"; done
for word in $($B cat /proc/cmdline); do
	case $word in lab.*) eval "lab_${word#lab.}" ;; esac
done

network() {
	$B ip link set lo up
	$B ip link set eth0 up
	until [ "$($B cat /sys/class/net/eth0/carrier)" = 1 ]; do $B sleep 0.01; done
	$B cat >/run/lease <<'LEASE'
#!/bin/busybox sh
[ "$1" = bound ] && /bin/busybox ip addr add "$ip/${mask:-24}" dev "$interface"
exit 0
LEASE
	$B chmod 755 /run/lease
	$B udhcpc -i eth0 -n -q -f -s /run/lease
}

# mount_nfs mounts the server's export on a directory. Without mount.nfs the kernel needs both addresses. A server
# identifies a client by its host name: two clients with one name take each other's session away again and again.
mount_nfs() {
	network
	$B hostname "lab-$($B tr -d : </sys/class/net/eth0/address)"
	for m in /nfs/*.ko; do $B insmod "$m"; done
	own=$($B ip -4 -o addr show dev eth0 | $B sed 's/.* inet \([0-9.]*\).*/\1/')
	$B mount -i -t nfs4 -o "$lab_mount,addr=$lab_server,clientaddr=$own" "$lab_server:/root" "$1"
}

case $lab_root in
disk)
	$B mount -t erofs -o ro /dev/vda /low
	;;
nbd)
	network
	/sbin/nbd-client "$lab_server" 10809 /dev/nbd0 -name '' -connections 2 -timeout 60
	echo "$lab_ahead" >/sys/block/nbd0/queue/read_ahead_kb
	$B mount -t "$lab_fs" -o ro /dev/nbd0 /low
	;;
nfs)
	mount_nfs /low
	;;
nfs-squashfs)
	mount_nfs /export
	$B mount -t squashfs -o ro,loop /export/root.squashfs /low
	;;
esac
echo "LAB root $($B grep ' /low ' /proc/mounts)" >/dev/console
$B mount -t tmpfs -o mode=755,size=50% up /up
$B mkdir /up/upper /up/work
$B mount -t overlay -o lowerdir=/low,upperdir=/up/upper,workdir=/up/work overlay /new
$B cp -p /ssh_host_ed25519_key /ssh_host_ed25519_key.pub /new/etc/ssh/
units=/run/systemd/system
$B mkdir -p $units/multi-user.target.wants
$B cat >$units/lab-booted.service <<UNIT
[Unit]
DefaultDependencies=no
After=multi-user.target graphical.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'read -r now _ </proc/uptime; echo "LAB booted $began \$\$now" >/dev/console'
UNIT
$B ln -s ../lab-booted.service $units/multi-user.target.wants/
for d in proc sys dev run; do $B mount -o move /$d /new/$d; done
exec $B switch_root /new /sbin/init
