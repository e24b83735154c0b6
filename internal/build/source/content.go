package source

import (
	"fmt"
	"strings"
)

// headSize is how many bytes of a file are read to determine its type: the signature of a CD image is at 32 KiB.
const headSize = 40 << 10

// content is a type of file that users may mistake for an archive of files, with the way to make an image of it.
type content struct {
	name, magic string
	at          int
	way         string
}

// contents lists the types that whatIs knows. Types with a signature far from the beginning come last.
func contents() []content {
	const (
		unpack = "unpack it first, as root: "
		disk   = "--from-disk takes it"
		raw    = "convert it with `qemu-img convert -O qcow2 FILE disk.qcow2`, and take --from-disk disk.qcow2"
		mount  = "mount it, and take --from-dir DIRECTORY"
		tarOf  = ", then --from-dir DIRECTORY"
	)
	return []content{
		{"packed with lz4", "\x04\x22\x4d\x18", 0, unpack + "`lz4 -d FILE`"},
		{"packed with lz4", "\x02\x21\x4c\x18", 0, unpack + "`lz4 -d FILE`"},
		{"packed with lzip", "LZIP", 0, unpack + "`lzip -d FILE`"},
		{"packed with lzop", "\x89LZO", 0, unpack + "`lzop -d FILE`"},
		{"packed with compress", "\x1f\x9d", 0, unpack + "`gzip -d FILE`"},
		{"packed with lzma", "\x5d\x00\x00", 0, unpack + "`xz -d --format=lzma FILE`"},
		{"an archive of 7-Zip", "7z\xbc\xaf\x27\x1c", 0, unpack + "`7z x FILE`; it keeps no owners and modes"},
		{"a zip archive", "PK\x03\x04", 0, unpack + "`unzip FILE`; it keeps no owners"},
		{"an archive of RAR", "Rar!", 0, unpack + "`unrar x FILE`; it keeps no owners"},
		{"a cpio archive", "070701", 0, unpack + "`cpio -idm < FILE` in an empty directory" + tarOf},
		{"a cpio archive", "070702", 0, unpack + "`cpio -idm < FILE` in an empty directory" + tarOf},
		{"a cpio archive", "070707", 0, unpack + "`cpio -idm < FILE` in an empty directory" + tarOf},
		{"a cpio archive", "\xc7\x71", 0, unpack + "`cpio -idm < FILE` in an empty directory" + tarOf},
		{"a package of Debian", "!<arch>\ndebian-binary", 0, "put its name into a recipe's packages"},
		{"an RPM package", "\xed\xab\xee\xdb", 0, "install it in a tree, and take --from-dir DIRECTORY"},
		{"a snapshot of Btrfs", "btrfs-stream\x00", 0, "`btrfs receive DIRECTORY < FILE`, and take --from-dir"},
		{"encrypted", "age-encryption.org", 0, "decrypt it first: `age -d`"},
		{"encrypted", "-----BEGIN PGP MESSAGE", 0, "decrypt it first: `gpg -d`"},
		{"a disk of QEMU (qcow2)", "QFI\xfb", 0, disk},
		{"a disk of VMware (vmdk)", "KDMV", 0, raw},
		{"a disk of VMware (vmdk)", "# Disk Descript", 0, raw},
		{"a disk of Hyper-V (vhdx)", "vhdxfile", 0, raw},
		{"a disk of VirtualBox (vdi)", "\x7f\x10\xda\xbe", 64, raw},
		{"a squashfs file system", "hsqs", 0, mount},
		{"an XFS file system", "XFSB", 0, disk},
		{"an EROFS file system", "\xe2\xe1\xf5\xe0", 1024, mount},
		{"an ext4 file system", "\x53\xef", 0x438, disk},
		{"a CD or DVD (ISO 9660)", "CD001", 0x8001, mount},
		{"a disk", "\x55\xaa", 510, disk},
	}
}

// whatIs names the type of a file by its first bytes, and says how to make an image of it; "" if the type is not
// known.
func whatIs(head []byte) string {
	if len(head) == 0 {
		return "it is empty"
	}
	for _, c := range contents() {
		if len(head) >= c.at+len(c.magic) && string(head[c.at:c.at+len(c.magic)]) == c.magic {
			return fmt.Sprintf("it is %s, not a tar archive: %s", c.name, c.way)
		}
	}
	if len(head) > 0 && !strings.ContainsRune(string(head[:min(len(head), 512)]), 0) {
		return "it is text, not a tar archive: was a page of a web server saved in its place?"
	}
	return ""
}
