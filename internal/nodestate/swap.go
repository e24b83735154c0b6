package nodestate

import (
	_ "embed"
	"strings"

	"pando/internal/fleet"
)

// swapFiles returns the units and scripts that set up swap space.
func swapFiles(k fleet.Keeping) []fleet.File {
	switch k.SwapSpace().Kind {
	case fleet.SwapZram:
		return swapService(
			"sysinit.target",
			zramSwap,
			"After=systemd-modules-load.service\nBefore=sysinit.target",
			"60",
		)
	case fleet.SwapDisk:
		return swapService(
			"sysinit.target",
			diskSwap,
			"After=systemd-udevd.service systemd-udev-trigger.service\nBefore=sysinit.target",
			"60",
		)
	case fleet.SwapVolume: // nothing waits for it
		return append(
			swapService(
				"multi-user.target",
				"device='"+swapDevice+"'\n"+volumeSwap,
				"Wants="+swapUnit+"\nAfter=multi-user.target",
				"infinity",
			),
			file(unitDir+swapUnit, volumeService(
				"the way to the swap space", " swap")),
		)
	}
	return nil
}

func swapService(target, script, order, most string) []fleet.File {
	return append(wanted("pando-swap.service", target, `[Unit]
Description=Pando: swap space
DefaultDependencies=no
`+order+`

[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=`+most+`
ExecStart=/bin/sh /run/pando/swap.sh
`), file(ownDir+"swap.sh", script))
}

// The device of swap space on a volume, and the unit that attaches it.
const (
	swapDevice = "/dev/nbd4"
	swapUnit   = "pando-swap-volume.service"
)

//go:embed swapvolume.sh
var volumeSwap string

const swapHead = "export PATH=/usr/sbin:/usr/bin:/sbin:/bin\nset -e\n"

// zramSwap uses its own zram device, because another may be the write layer. The device is half as large as the
// memory. Its content takes about a third of its size.
const zramSwap = swapHead + `[ -d /sys/class/zram-control ] || modprobe zram num_devices=0
n=$(cat /sys/class/zram-control/hot_add)
while read -r key kb _; do
	[ "$key" != MemTotal: ] || echo $((kb / 2))K >"/sys/block/zram$n/disksize"
done </proc/meminfo
mkswap "/dev/zram$n" >/dev/null
swapon -p 100 "/dev/zram$n"
`

// diskSwap uses a partition that a person named for swap. It refuses a partition with other content.
const diskSwap = swapHead + `disk=/dev/disk/by-partlabel/` + fleet.SwapPartition + `
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

// sysctls are settings for nodes without a disk. docs/node-state.md has the reasons. The image's settings win over
// them, and the group's settings win over both.
const sysctls = `vm.dirty_background_bytes=67108864
vm.dirty_bytes=268435456
`

func sysctlFiles(k fleet.Keeping) []fleet.File {
	out := []fleet.File{file("/run/sysctl.d/00-pando.conf", sysctls)}
	if list := k.SysctlList(); len(list) > 0 {
		out = append(out, file("/run/sysctl.d/zz-pando.conf", strings.Join(list, "\n")+"\n"))
	}
	return out
}
