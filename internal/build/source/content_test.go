package source

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/testkit"
)

// bigXZ makes an xz archive whose header requests a dictionary of 4 GiB.
func bigXZ(t *testing.T) string {
	t.Helper()
	needPrograms(t, "xz")
	cmd := exec.Command("xz", "-c")
	cmd.Stdin = strings.NewReader(strings.Repeat("x", 2000))
	b, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	header := b[12 : 12+(int(b[12])+1)*4]
	header[4] = 40
	binary.LittleEndian.PutUint32(header[len(header)-4:], crc32.ChecksumIEEE(header[:len(header)-4]))
	return string(b)
}

// TestWhatIsNoTarball: the error for a file that is no tarball says what it is, and how to make an image of it.
func TestWhatIsNoTarball(t *testing.T) {
	needRoot(t)
	at := func(off int, magic string) string {
		return strings.Repeat("\x00", off) + magic + strings.Repeat("\x00", 700)
	}
	zstdHead := "\x28\xb5\x2f\xfd"
	packedCPIO := string(piped(t, "gzip", []byte(at(0, "070701"))))
	saved := string(archiveOf(t, file("oci-layout", "{}"), file("index.json", "{}")))
	for name, c := range map[string]struct{ content, want, way string }{
		"zstd --long":      {zstdHead + "\x00\xa8\x01\x00\x00", "window of more than 128 MiB", "zstd -d --long=31"},
		"zstd, dictionary": {zstdHead + "\x01\x58\x07\x01\x00\x00", "with a dictionary", "zstd -d -D"},
		"xz, dictionary":   {bigXZ(t), "more than 512MiB", "xz -d"},
		"lz4":              {at(0, "\x04\x22\x4d\x18"), "packed with lz4", "lz4 -d"},
		"7z":               {at(0, "7z\xbc\xaf\x27\x1c"), "archive of 7-Zip", "7z x"},
		"zip":              {at(0, "PK\x03\x04"), "zip archive", "unzip"},
		"cpio":             {at(0, "070701"), "cpio archive", "--from-dir"},
		"packed cpio": {
			packedCPIO, "cpio archive", "--from-dir",
		},
		"qcow2":         {at(0, "QFI\xfb"), "disk of QEMU", "--from-disk"},
		"vmdk":          {at(0, "KDMV"), "disk of VMware", "qemu-img convert"},
		"vdi":           {at(64, "\x7f\x10\xda\xbe"), "disk of VirtualBox", "qemu-img convert"},
		"raw":           {at(510, "\x55\xaa"), "a disk", "--from-disk"},
		"squashfs":      {at(0, "hsqs"), "squashfs", "--from-dir"},
		"iso":           {at(0x8001, "CD001"), "CD or DVD", "--from-dir"},
		"deb":           {"!<arch>\ndebian-binary   " + at(0, ""), "package of Debian", "recipe's packages"},
		"btrfs send":    {at(0, "btrfs-stream\x00"), "snapshot of Btrfs", "btrfs receive"},
		"an error page": {"<!DOCTYPE html><title>404</title>", "it is text", "web server"},
		"nothing":       {"", "it is empty", ""},
		"saved image":   {saved, "container image", "--from-oci"},
	} {
		path := filepath.Join(t.TempDir(), "lab.tar.zst")
		testkit.Put(t, path, []byte(c.content))
		_, err := Tar{File: path}.Fill(t.Context(), newPlace(t), func(Progress) {})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.way) {
			t.Errorf("%s: %v; want %q and %q", name, err, c.want, c.way)
		}
	}
}

// TestWhatIsNoDisk: the error for a tarball given as a disk says that it is a tarball.
func TestWhatIsNoDisk(t *testing.T) {
	tarball := archiveOf(t, dir("."), file("etc/os-release", "x"))
	for name, content := range map[string][]byte{
		"plain": tarball, "packed": append(piped(t, "gzip", tarball), make([]byte, 600)...),
	} {
		path := filepath.Join(t.TempDir(), "lab.img")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Disk{File: path}.Fill(t.Context(), newPlace(t), func(Progress) {})
		if err == nil || !strings.Contains(err.Error(), "--from-tar") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
