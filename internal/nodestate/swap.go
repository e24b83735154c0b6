package nodestate

import (
	"strings"

	"pando/internal/fleet"
)

// swapFiles make swap space.
func swapFiles(k fleet.Keeping) []fleet.File {
	kind := k.SwapText()
	if kind == fleet.SwapNone {
		return nil
	}
	script, after := zramSwap, "systemd-modules-load.service"
	if kind == fleet.SwapDisk {
		script, after = diskSwap, "systemd-udevd.service systemd-udev-trigger.service"
	}
	return append(wanted("pando-swap.service", "sysinit.target", `[Unit]
Description=Pando: swap space
DefaultDependencies=no
After=`+after+`
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=60
ExecStart=/bin/sh /run/pando/swap.sh
`), file(ownDir+"swap.sh", "export PATH=/usr/sbin:/usr/bin:/sbin:/bin\nset -e\n"+script))
}

// zramSwap takes a device of its own: another one may be the write layer. It is half as large as the memory, of which it takes about a third of
// what is in it.
const zramSwap = `[ -d /sys/class/zram-control ] || modprobe zram num_devices=0
n=$(cat /sys/class/zram-control/hot_add)
while read -r key kb _; do
	[ "$key" != MemTotal: ] || echo $((kb / 2))K >"/sys/block/zram$n/disksize"
done </proc/meminfo
mkswap "/dev/zram$n" >/dev/null
swapon -p 100 "/dev/zram$n"
`

// diskSwap makes swap space on a partition that a person gave the name to; what has another content is refused.
const diskSwap = `disk=/dev/disk/by-partlabel/` + fleet.SwapPartition + `
n=0
until [ -b "$disk" ]; do
	n=$((n + 1))
	[ $n -le 30 ] || { echo "no partition is called ` + fleet.SwapPartition + `"; exit 1; }
	sleep 1
done
case $(blkid -p -o value -s TYPE "$disk" || true) in
"") mkswap "$disk" >/dev/null ;;
swap) ;;
*) echo "$disk has something else on it"; exit 1 ;;
esac
swapon "$disk"
`

// sysctls are what a node without a disk wants otherwise than the kernel's defaults; docs/write-layer.md has the reasons. What the image
// says wins over them, and what the group says over all.
const sysctls = `kernel.hung_task_panic=0
vm.dirty_background_bytes=67108864
vm.dirty_bytes=268435456
`

func sysctlFiles(k fleet.Keeping) []fleet.File {
	out := []fleet.File{file("/run/sysctl.d/00-pando.conf", sysctls)}
	if list := k.SysctlList(); len(list) > 0 {
		out = append(out, file("/run/sysctl.d/zz-pando.conf", strings.Join(list, "\n")+"\n"))
	}
	return out
}
