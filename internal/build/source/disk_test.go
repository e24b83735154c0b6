package source

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needPrograms skips a test if programs that make its disks are missing.
func needPrograms(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
}

// vmDisk makes the disk of a virtual machine with three partitions: one that is not the root, /boot, and the root.
// label is "gpt" or "dos".
func vmDisk(t *testing.T, label, fstab string) string {
	t.Helper()
	needPrograms(t, "sfdisk", "mkfs.ext4", "dd")
	tree := pilot(t)
	if err := os.WriteFile(filepath.Join(tree, "etc/fstab"), []byte(fstab), 0o644); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(t.TempDir(), "disk.raw")
	const script = `cd "${1%/*}"; mv "$2/boot" boot; mkdir "$2/boot"
truncate -s 80M "$1"; printf '%s\n' 'start=2048, size=8192' 'start=10240, size=20480' 'start=30720, size=122880' | sfdisk -q --label "$3" "$1"
truncate -s 10M b; truncate -s 60M r
mkfs.ext4 -q -U 11111111-2222-3333-4444-555555555555 -L BOOT -d boot b; mkfs.ext4 -q -U 99999999-2222-3333-4444-555555555555 -d "$2" r
dd status=none conv=notrunc bs=1M if=b of="$1" seek=5; dd status=none conv=notrunc bs=1M if=r of="$1" seek=15; rm b r`
	if out, err := exec.Command("sh", "-euc", script, "sh", disk, tree, label).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return disk
}

const diskFstab = `# mine
UUID=99999999-2222-3333-4444-555555555555 / ext4 defaults 0 1
%BOOT% /boot ext4 defaults 0 2
server:/home /home nfs defaults 0 0
`

// checkDisk copies a disk and checks the result.
func checkDisk(t *testing.T, disk string) {
	t.Helper()
	before, err := os.Stat(disk)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	made, err := Disk{File: disk, Choice: pilotChoice}.Fill(t.Context(), p, func(Progress) {})
	if err != nil {
		if strings.Contains(err.Error(), "loop") {
			t.Skipf("this machine has no loop devices: %v", err)
		}
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"etc/os-release": true, "boot/vmlinuz-6.1.0-test": true,
		"etc/krb5.keytab": false, "home/lab/.profile": true,
		"home/desk": false, "lost+found": false, "usr/bin/link": true} {
		if _, err := os.Lstat(filepath.Join(p.Root, name)); (err == nil) != want {
			t.Errorf("%s: there %t, want %t", name, err == nil, want)
		}
	}
	if all := strings.Join(made.Notes, "\n"); !strings.Contains(
		all,
		"root file system is on partition 3 (ext4), /boot on partition 2",
	) {
		t.Errorf("notes: %s", all)
	}
	if after, err := os.Stat(disk); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the disk was written to (%v)", err)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), p.Keep) {
		t.Errorf("mounts are left (%v)", err)
	}
}

// TestDisk: the root of a virtual machine is found by its content, and /boot by every notation of fstab.
func TestDisk(t *testing.T) {
	for boot, label := range map[string]string{"UUID=11111111-2222-3333-4444-555555555555": "gpt",
		"LABEL=BOOT": "dos", "/dev/vda2": "gpt"} {
		t.Run(label+" "+boot[:5], func(t *testing.T) {
			checkDisk(t, vmDisk(t, label, strings.ReplaceAll(diskFstab, "%BOOT%", boot)))
		})
	}
}

// TestDiskXFSAndBtrfs: roots of other distributions: XFS, also with a journal to replay, and Btrfs with the root in a
// subvolume.
func TestDiskXFSAndBtrfs(t *testing.T) {
	for kind, make := range map[string]string{
		"xfs": `truncate -s 320M r; mkfs.xfs -q r; mount -o loop r m; cp -a "$2/." m/; umount m`,
		"btrfs": `truncate -s 256M r; mkfs.btrfs -q r; mount -o loop r m; btrfs -q subvolume create m/@; cp -a "$2/." m/@/
			setfattr -n btrfs.compression -v zstd m/@/etc; umount m`,
	} {
		t.Run(kind, func(t *testing.T) {
			needPrograms(t, "sfdisk", "mkfs."+kind)
			if known, err := os.ReadFile("/proc/filesystems"); err != nil ||
				!strings.Contains(string(known), "\t"+kind+"\n") {
				t.Skipf("this kernel has no %s", kind)
			}
			disk := filepath.Join(t.TempDir(), "disk.raw")
			script := `cd "${1%/*}"; mkdir m; ` + make + `; truncate -s 340M "$1"; echo start=2048 | sfdisk -q --label gpt "$1"
				dd status=none conv=notrunc,sparse bs=1M if=r of="$1" seek=1; rm r`
			if out, err := exec.Command("sh", "-euc", script, "sh", disk, pilot(t)).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			p := newPlace(t)
			made, err := Disk{File: disk, Choice: pilotChoice}.Fill(t.Context(), p, func(Progress) {})
			if err != nil {
				t.Fatal(err)
			}
			checkCopy(t, p.Root, made)
			if output := strings.Join(made.Notes, " "); !strings.Contains(output, "partition 1 ("+kind+")") ||
				strings.Contains(output, "shut down") {
				t.Errorf("notes: %q", made.Notes)
			}
			if kind != "xfs" {
				return
			}
			if out, err := exec.Command("sh", "-euc",
				`cd "${1%/*}"; cp "$1" off.raw; mount -o loop,offset=1M off.raw m; echo last > m/last; xfs_io -x -c "shutdown -f" m; umount m`, "sh", disk).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			off := filepath.Join(filepath.Dir(disk), "off.raw")
			made, err = Disk{File: off, Choice: pilotChoice}.Fill(t.Context(), newPlace(t), func(Progress) {})
			if output := strings.Join(made.Notes, " "); err != nil ||
				!strings.Contains(output, "not shut down properly") {
				t.Errorf("switched off: %v, notes %q", err, output)
			}
		})
	}
}

func TestDiskQcow2(t *testing.T) {
	needPrograms(t, "qemu-img")
	raw := vmDisk(t, "gpt", strings.ReplaceAll(diskFstab, "%BOOT%", "LABEL=BOOT"))
	dir := filepath.Dir(raw)
	run := func(args ...string) {
		t.Helper()
		c := exec.Command("qemu-img", args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	run("convert", "-O", "qcow2", "-c", "disk.raw", "disk.qcow2")
	checkDisk(t, filepath.Join(dir, "disk.qcow2"))

	run("create", "-q", "-f", "qcow2", "-b", "disk.raw", "-F", "raw", "part.qcow2")
	run("convert", "-O", "vmdk", "disk.raw", "disk.vmdk")
	for name, want := range map[string]string{"part.qcow2": "a part only, of disk.raw", "disk.vmdk": "qemu-img " +
		"convert -O qcow2"} {
		if _, err := (Disk{File: filepath.Join(dir, name)}).Fill(t.Context(), newPlace(t),
			func(Progress) {}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", name, err, want)
		}
	}
}

// TestDiskErrors: the error for a disk that cannot be read says what to do.
func TestDiskErrors(t *testing.T) {
	needPrograms(t, "sfdisk")
	for name, c := range map[string]struct {
		at    int64
		magic string
		want  string
	}{
		"LVM":   {1<<20 + 512, "LABELONE", "vgchange -ay"},
		"LUKS":  {1 << 20, "LUKS\xba\xbe", "cryptsetup open"},
		"ZFS":   {1<<20 + 128<<10, "\x0c\xb1\xba\x00\x00\x00\x00\x00", "part of a ZFS"},
		"empty": {1 << 20, "", "no root file system was found"},
	} {
		disk := filepath.Join(t.TempDir(), "disk")
		out, err := exec.Command("sh", "-euc", `truncate -s 16M "$1"; echo 'start=2048' | sfdisk -q --label gpt "$1"`,
			"sh", disk).
			CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		f, err := os.OpenFile(disk, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(c.magic), c.at); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if _, err := (Disk{File: disk}).Fill(t.Context(), newPlace(t), func(Progress) {}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		if err := os.Truncate(disk, 4<<20); err != nil {
			t.Fatal(err)
		}
		if _, err := (Disk{File: disk}).Fill(t.Context(), newPlace(t), func(Progress) {}); err == nil ||
			!strings.Contains(err.Error(), "outside of the disk") {
			t.Errorf("%s, cut off: error %v", name, err)
		}
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Disk{File: short}).Fill(t.Context(), newPlace(t), func(Progress) {}); err == nil ||
		!strings.Contains(err.Error(), "shorter than a disk") {
		t.Errorf("one byte: %v", err)
	}
}

// FuzzPartitions: no partition table makes the reader panic or return a place outside of the disk.
func FuzzPartitions(f *testing.F) {
	mbr := make([]byte, 2048)
	copy(mbr[446+4:], "\x83\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00")
	mbr[510], mbr[511] = 0x55, 0xaa
	f.Add(mbr)
	gpt := append([]byte{}, mbr...)
	copy(gpt[512:], "EFI PART")
	gpt[512+72], gpt[512+80], gpt[512+85] = 2, 4, 1
	f.Add(gpt)
	f.Fuzz(func(t *testing.T, b []byte) {
		disk := filepath.Join(t.TempDir(), "disk")
		if err := os.WriteFile(disk, b, 0o600); err != nil {
			t.Fatal(err)
		}
		parts, err := readPartitions(disk)
		if err != nil {
			return
		}
		for _, p := range parts {
			if p.offset < 0 || p.size < 0 || p.offset+p.size > int64(len(b)) {
				t.Errorf("partition %d: %d bytes at %d, of %d", p.number, p.size, p.offset, len(b))
			}
		}
	})
}
