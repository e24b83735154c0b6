package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"pando/internal/mount"
)

// partition is a partition of a disk, or a whole disk without partitions.
type partition struct {
	number       int
	offset, size int64  // bytes
	kind         string // "ext4", "xfs", "btrfs"; "swap", "vfat" ...; "" if unknown
	uuid, label  string // of the file system
	id, name     string // PARTUUID and PARTLABEL
}

// sector is the unit of partition tables on virtual disks, in bytes.
const sector = 512

// Maximum number of entries of a GPT, and of logical partitions of an MBR.
const (
	maxPartitions = 128
	maxLogical    = 64
)

// readPartitions reads the partition table of a raw disk, GPT or MBR, and detects the file system of each partition.
func readPartitions(file string) ([]partition, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	disk := &rawDisk{f, info.Size()}
	parts, err := disk.partitions()
	if err != nil {
		return nil, err
	}
	for i := range parts {
		disk.look(&parts[i])
	}
	return parts, nil
}

type rawDisk struct {
	f    *os.File
	size int64
}

// read returns n bytes at an offset; bytes beyond the end of the disk are zeros.
func (d *rawDisk) read(at int64, n int) []byte {
	b := make([]byte, n)
	got, _ := d.f.ReadAt(b, at) // bytes beyond the end become zeros
	clear(b[got:])
	return b
}

func (d *rawDisk) partitions() ([]partition, error) {
	whole := partition{number: 0, size: d.size}
	mbr := d.read(0, sector)
	if d.look(&whole); whole.kind != "" && whole.kind != "vfat" {
		return []partition{whole}, nil // a file system without a partition table
	}
	if mbr[510] != 0x55 || mbr[511] != 0xaa {
		return nil, errors.New("it has neither a partition table nor a file system that is known")
	}
	var out []partition
	if string(d.read(sector, 8)) == "EFI PART" {
		out = d.gpt()
	} else {
		out = d.mbr(mbr)
	}
	for _, p := range out {
		if p.offset < sector || p.size <= 0 || p.offset > d.size-p.size {
			return nil, fmt.Errorf("partition %d lies outside of the disk: is the file whole?", p.number)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("its partition table is empty")
	}
	return out, nil
}

// gpt reads the partition table of the UEFI specification, chapter 5.
func (d *rawDisk) gpt() (out []partition) {
	le := binary.LittleEndian
	head := d.read(sector, sector)
	table, count, size := int64(le.Uint64(head[72:])), int(le.Uint32(head[80:])), int(le.Uint32(head[84:]))
	if size < 128 || size > 4096 || table < 0 || table > d.size/sector {
		return nil
	}
	for i := range min(count, maxPartitions) {
		e := d.read(table*sector+int64(i*size), 128)
		if [16]byte(e[:16]) == [16]byte{} {
			continue
		}
		first, last := int64(le.Uint64(e[32:])), int64(le.Uint64(e[40:]))
		if first < 0 || last < first || last > d.size/sector {
			first, last = 0, 0
		}
		out = append(
			out,
			partition{
				number: i + 1,
				offset: first * sector,
				size:   (last - first + 1) * sector,
				id:     guid(e[16:32]),
				name:   utf16Text(e[56:128]),
			},
		)
	}
	return out
}

// mbr reads the four primary partitions and the chain of logical ones.
func (d *rawDisk) mbr(b []byte) (out []partition) {
	le := binary.LittleEndian
	disk := le.Uint32(b[440:])
	add := func(number int, e []byte, base int64) {
		out = append(
			out,
			partition{
				number: number,
				offset: (base + int64(le.Uint32(e[8:]))) * sector,
				size:   int64(le.Uint32(e[12:])) * sector,
				id:     fmt.Sprintf("%08x-%02x", disk, number),
			},
		)
	}
	for i := range 4 {
		e := b[446+16*i : 462+16*i]
		switch e[4] {
		case 0:
		case 0x05, 0x0f, 0x85:
			begin := int64(le.Uint32(e[8:]))
			next := begin
			for n := range maxLogical {
				chain := d.read(next*sector, sector)
				if chain[510] != 0x55 || chain[511] != 0xaa || chain[446+4] == 0 {
					break
				}
				add(5+n, chain[446:462], next)
				step := int64(le.Uint32(chain[462+8:]))
				if chain[462+4] == 0 || step == 0 {
					break
				}
				next = begin + step
			}
		default:
			add(i+1, e, 0)
		}
	}
	return out
}

// signatures are the signatures of file systems and other content of partitions.
var signatures = []struct {
	kind, magic string
	at          int64
}{
	{
		"LUKS",
		"LUKS\xba\xbe",
		0,
	}, {"LVM", "LABELONE", 512}, {"xfs", "XFSB", 0}, {"btrfs", "_BHRfS_M", 0x10040}, {"ext4", "\x53\xef", 0x438},
	{
		"swap",
		"SWAPSPACE2",
		4086,
	}, {"ntfs", "NTFS    ", 3}, {"vfat", "FAT32", 82}, {"vfat", "FAT1", 54}, {"squashfs", "hsqs", 0},
	{"erofs", "\xe2\xe1\xf5\xe0", 1024},
	{
		"RAID",
		"\xfc\x4e\x2b\xa9",
		4096,
	}, {"ZFS", "\x0c\xb1\xba\x00\x00\x00\x00\x00", 128 << 10}, {"BitLocker", "-FVE-FS-", 3},
}

// look determines the content of a partition.
func (d *rawDisk) look(p *partition) {
	for _, s := range signatures {
		if s.at+int64(len(s.magic)) <= p.size && string(d.read(p.offset+s.at, len(s.magic))) == s.magic {
			p.kind = s.kind
			break
		}
	}
	switch p.kind {
	case "ext4":
		b := d.read(p.offset+1024, 256)
		p.uuid, p.label = uuidText(b[0x68:0x78]), cText(b[0x78:0x88])
	case "xfs":
		b := d.read(p.offset, 128)
		p.uuid, p.label = uuidText(b[32:48]), cText(b[108:120])
	case "btrfs":
		b := d.read(p.offset+0x10000, 0x12b+256)
		p.uuid, p.label = uuidText(b[0x20:0x30]), cText(b[0x12b:])
	}
}

// options returns mount options to try in this order. None writes to the partition: no journal is replayed. The
// kernel refuses the first option of ext4 and XFS if the journal is not empty.
func (p partition) options() []string {
	switch p.kind {
	case "ext4":
		return []string{"", noLoad}
	case "xfs":
		return []string{"nouuid", noRecovery}
	case "btrfs":
		return []string{
			"rescue=nologreplay",
			"rescue=nologreplay,subvol=@",
			"rescue=nologreplay,subvol=root",
			"rescue=nologreplay,subvol=@rootfs",
		}
	case "squashfs", "erofs":
		return []string{""}
	}
	return nil
}

// Mount options that ignore the journal.
const noLoad, noRecovery = "noload", "norecovery,nouuid"

// unclean returns what may be missing from a file system that was mounted without its journal; "" if nothing.
func unclean(p partition, data string) string {
	if data != noLoad && data != noRecovery {
		return ""
	}
	return fmt.Sprintf(
		"; the machine was not shut down properly: what it wrote last to partition %d may be missing or half "+
			"there, so start and stop it once and build again",
		p.number,
	)
}

func (p partition) file(raw, data string) mount.File {
	return mount.File{Path: raw, Offset: p.offset, Size: p.size, Type: p.kind, Data: data}
}

// hint says what to do about a partition that cannot be mounted from a file.
func (p partition) hint() string {
	const way = ", or copy the running machine with `pando image capture NAME root@MACHINE`"
	switch p.kind {
	case "LVM":
		return fmt.Sprintf(
			"partition %d is an LVM physical volume: open it (`losetup -P --find --show DISK`, `vgchange -ay`), "+
				"mount its root and use --from-dir%s",
			p.number,
			way,
		)
	case "LUKS", "BitLocker":
		return fmt.Sprintf(
			"partition %d is encrypted (%s): open it (`losetup -P --find --show DISK`, `cryptsetup open`), mount "+
				"it and use --from-dir%s",
			p.number,
			p.kind,
			way,
		)
	case "RAID", "ZFS":
		return fmt.Sprintf(
			"partition %d is a part of a %s: put it together, mount it and use --from-dir%s",
			p.number,
			p.kind,
			way,
		)
	}
	return ""
}

// named returns the partition that the first field of a line of fstab(5) means.
func named(parts []partition, field string) (partition, bool) {
	key, value, _ := strings.Cut(field, "=")
	value = strings.Trim(value, `"`)
	for _, p := range parts {
		switch {
		case key == "UUID" && p.uuid != "" && strings.EqualFold(p.uuid, value),
			key == "LABEL" && p.label != "" && p.label == value,
			key == "PARTUUID" && p.id != "" && strings.EqualFold(p.id, value),
			key == "PARTLABEL" && p.name != "" && p.name == value,
			strings.HasPrefix(field, "/dev/disk/by-uuid/") && p.uuid != "" &&
				strings.EqualFold(p.uuid, strings.TrimPrefix(field, "/dev/disk/by-uuid/")),
			strings.HasPrefix(field, "/dev/") && !strings.HasPrefix(field, "/dev/disk/") &&
				!strings.HasPrefix(field, "/dev/mapper/") &&
				p.number > 0 && strings.TrimLeft(field, "/abcdefghijklmnopqrstuvwxyz") == strconv.Itoa(p.number):
			return p, true
		}
	}
	return partition{}, false
}

func uuidText(b []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// guid formats a UUID from GPT, which stores the first three numbers with the low byte first.
func guid(b []byte) string {
	le := binary.LittleEndian
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), b[8:10], b[10:16])
}

func cText(b []byte) string {
	text, _, _ := strings.Cut(string(b), "\x00")
	return text
}

func utf16Text(b []byte) string {
	var out []rune
	for i := 0; i+1 < len(b); i += 2 {
		r := rune(binary.LittleEndian.Uint16(b[i:]))
		if r == 0 {
			break
		}
		out = append(out, r)
	}
	return string(out)
}
