package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/cache"
	"pando/internal/hardware"
)

// List lists the machine's disks, each before its partitions.
func List(sys, dev, proc string) []api.Disk {
	out := []api.Disk{}
	names := BlockDevices(sys)
	for _, n := range names {
		if WholeDisk(sys, n) != "" {
			continue
		}
		out = append(out, describeDisk(sys, dev, proc, n))
		for _, p := range names {
			if WholeDisk(sys, p) == n {
				out = append(out, describeDisk(sys, dev, proc, p))
			}
		}
	}
	return out
}

func describeDisk(sys, dev, proc, name string) api.Disk {
	dir := filepath.Join(sys, "class/block", name)
	disk := WholeDisk(sys, name)
	d := api.Disk{
		Name:     "/dev/" + name,
		Size:     Size(sys, name),
		ReadOnly: hardware.SysValue(dir, "ro") == "1",
		Used:     usedBy(sys, dev, proc, name),
	}
	if disk != "" {
		d.Of = "/dev/" + disk
	} else {
		d.Model = strings.TrimSpace(hardware.SysValue(dir, "device/vendor") + " " + hardware.SysValue(dir,
			"device/model"))
		d.Removable = hardware.SysValue(dir, "removable") == "1"
	}
	if f, err := os.Open(filepath.Join(dev, name)); err == nil {
		defer f.Close()
		d.Has = ContentOf(f)
	}
	if p := PartitionName(sys, name); p != "" && d.Has != p {
		d.Has = strings.TrimSpace(d.Has + " (" + p + ")")
	}
	return d
}

// Size returns the size of a disk or partition in bytes. sysfs counts sectors of 512 bytes, whatever the disk's
// sector size is.
func Size(sys, name string) int64 {
	n, _ := strconv.ParseInt(hardware.SysValue(filepath.Join(sys, "class/block", name), "size"), 10, 64)
	return n * 512
}

// signature is a text at an offset that identifies the content of a disk.
type signature struct {
	at   int64
	text string
	name string
}

// signatures lists common contents of disks. The first that matches counts, so specific ones come before general
// ones.
var signatures = []signature{
	{
		0x438,
		"\x53\xef",
		"ext4",
	}, {0, "XFSB", "XFS"}, {0x10040, "_BHRfS_M", "btrfs"}, {3, "NTFS    ", "NTFS"}, {3, "EXFAT   ", "exFAT"},
	{
		82,
		"FAT32",
		"FAT",
	}, {54, "FAT1", "FAT"}, {4086, "SWAPSPACE2", "swap"}, {0, "LUKS\xba\xbe", "LUKS"}, {512 + 24, "LVM2", "LVM"},
	{0x1000, "\xfc\x4e\x2b\xa9", "RAID"}, {512, "EFI PART", "partition table"}, {4096, "EFI PART", "partition table"},
	{510, "\x55\xaa", "partition table"},
}

// ContentOf names the content of a disk, "" if it is unknown.
func ContentOf(f *os.File) string {
	if cache.Probe(f) {
		return cache.PartitionName
	}
	for _, s := range signatures {
		b := make([]byte, len(s.text))
		if _, err := f.ReadAt(b, s.at); err == nil && bytes.Equal(b, []byte(s.text)) {
			return s.name
		}
	}
	return ""
}

// usedBy says what uses a disk or partition, "" if nothing does. Finally it opens the device exclusively, which the
// kernel refuses if another exclusive user has it open.
func usedBy(sys, dev, proc, name string) string {
	for _, n := range BlockDevices(sys) {
		if n != name && WholeDisk(sys, n) != name {
			continue
		}
		if at := mountOf(proc, hardware.SysValue(filepath.Join(sys, "class/block", n), "dev")); at != "" {
			return "/dev/" + n + " is mounted on " + at
		}
		if swaps, _ := os.ReadFile(filepath.Join(proc, "swaps")); bytes.Contains(swaps, []byte("/dev/"+n+" ")) {
			return "/dev/" + n + " is swap space"
		}
		if h, _ := os.ReadDir(filepath.Join(sys, "class/block", n, "holders")); len(h) > 0 {
			return "/dev/" + n + " is part of " + h[0].Name()
		}
	}
	f, err := os.OpenFile(filepath.Join(dev, name), os.O_RDONLY|unix.O_EXCL, 0)
	if err == nil {
		f.Close()
		return ""
	}
	if errors.Is(err, unix.EBUSY) {
		return "something has it open, perhaps as this node's cache"
	}
	return err.Error()
}

// mountOf returns where a device, such as "8:1", is mounted, "" if it is not.
func mountOf(proc, device string) string {
	data, _ := os.ReadFile(filepath.Join(proc, "self/mountinfo"))
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && f[2] == device {
			return f[4]
		}
	}
	return ""
}
