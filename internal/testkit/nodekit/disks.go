package nodekit

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Disks makes the files of a machine with a hard disk (a mounted partition and swap), a USB stick, an NBD device and a
// CD.
func Disks(t T) (sys, dev, proc string) {
	t.Helper()
	sys = SysTree(t, map[string]string{
		"devices/sda/size": "1000000", "devices/sda/dev": "8:0", "devices/sda/device/vendor": "ATA  ",
		"devices/sda/device/model": "OLD DISK ",
		"devices/sda/sda1/size":    "400000", "devices/sda/sda1/partition": "1", "devices/sda/sda1/dev": "8:1",
		"devices/sda/sda2/size": "400000", "devices/sda/sda2/partition": "2", "devices/sda/sda2/dev": "8:2",
		"devices/sdb/size": "320000", "devices/sdb/dev": "8:16", "devices/sdb/removable": "1", "devices/sdb/ro": "0",
		"devices/sdb/queue/logical_block_size": "512", "devices/sdc/size": "320000", "devices/sdc/ro": "1",
		"devices/sdd/size": "100000", "devices/nbd0/size": "5", "devices/sr0/size": "5",
	})
	dev, proc = t.TempDir(), t.TempDir()
	for name, of := range map[string]string{"sda": "sda", "sda1": "sda/sda1", "sda2": "sda/sda2", "sdb": "sdb",
		"sdc": "sdc", "sdd": "sdd",
		"nbd0": "nbd0", "sr0": "sr0"} {
		link := filepath.Join(sys, "class/block", name)
		text, err := os.ReadFile(filepath.Join(sys, "devices", of, "size"))
		if err != nil {
			t.Fatal(err)
		}
		size, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil {
			err = errors.Join(
				os.MkdirAll(filepath.Dir(link), 0o755),
				os.Symlink(filepath.Join("../../devices", of), link),
				os.WriteFile(filepath.Join(dev, name), nil, 0o600),
				os.Truncate(filepath.Join(dev, name), 512*size),
			)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(
		os.Mkdir(filepath.Join(proc, "self"), 0o755),
		os.WriteFile(
			filepath.Join(proc, "self/mountinfo"),
			[]byte("36 35 8:1 / /data rw,noatime - ext4 /dev/sda1 rw\n"),
			0o600,
		),
		os.WriteFile(filepath.Join(proc, "swaps"), []byte("Filename Type Size\n/dev/sda2 partition 1\n"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	return sys, dev, proc
}
