package media

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FAT32 as UEFI requires for its system partition. With clusters of one sector 64 MiB have enough of them.
const (
	reserved    = 32 // sectors before the first FAT
	fats        = 2
	firstData   = 2 // number of the first cluster
	endOfChain  = 0x0fffffff
	minClusters = 65525 // with fewer clusters it would be FAT16
	fatEpoch    = 0x21  // 1 January 1980, the earliest date of FAT
	rootCluster = firstData
)

// fat is a file system that is being made. Each file and directory is one run of clusters.
type fat struct {
	next  uint32 // next free cluster
	chain []uint32
	data  []byte // from the first cluster on
}

// fat32 makes a file system of a size in bytes with some files. Their paths are upper case, with names of at most 8.3
// characters, such as "EFI/BOOT/BOOTX64.EFI". The result ends with the last cluster in use.
func fat32(size int64, label string, files map[string][]byte) ([]byte, error) {
	sectors := uint32(size / Sector)
	perFAT := (sectors-reserved)*4/(Sector+8) + 1
	clusters := sectors - reserved - fats*perFAT
	if clusters < minClusters {
		return nil, fmt.Errorf("FAT32 of %d bytes has %d clusters, fewer than %d", size, clusters, minClusters)
	}
	f := &fat{next: firstData, chain: []uint32{0x0ffffff8, endOfChain}}
	if err := f.tree(label, files); err != nil {
		return nil, err
	}
	used := f.next - firstData
	if used > clusters {
		return nil, fmt.Errorf("files for the boot loader need %d sectors, there are %d", used, clusters)
	}
	out := make([]byte, (reserved+fats*perFAT)*Sector)
	boot, info := fatBoot(sectors, perFAT, label), fatInfo(clusters-used, f.next)
	copy(out, boot)
	copy(out[Sector:], info)
	copy(out[6*Sector:], boot)
	copy(out[7*Sector:], info)
	for i, c := range f.chain {
		for n := range uint32(fats) {
			binary.LittleEndian.PutUint32(out[(reserved+n*perFAT)*Sector+uint32(i)*4:], c)
		}
	}
	return append(out, f.data...), nil
}

// put appends one run of clusters and returns its first cluster.
func (f *fat) put(data []byte) uint32 {
	first := f.next
	n := uint32(max(1, (len(data)+Sector-1)/Sector))
	for i := range n {
		next := first + i + 1
		if i == n-1 {
			next = endOfChain
		}
		f.chain = append(f.chain, next)
	}
	f.next += n
	f.data = append(f.data, data...)
	f.data = append(f.data, make([]byte, int(f.next-firstData)*Sector-len(f.data))...)
	return first
}

// tree writes all directories and files. Directories come first, at their final size, so that their places are known
// when entries refer to them.
func (f *fat) tree(label string, files map[string][]byte) error {
	children := map[string][]string{"": nil} // by directory
	for _, path := range slices.Sorted(maps.Keys(files)) {
		for p := path; p != ""; {
			dir := ""
			if i := strings.LastIndexByte(p, '/'); i >= 0 {
				dir = p[:i]
			}
			if !slices.Contains(children[dir], p) {
				children[dir] = append(children[dir], p)
			}
			p = dir
		}
	}
	place := map[string]uint32{}
	dirs := slices.Sorted(maps.Keys(children)) // the root is ""
	for _, d := range dirs {
		place[d] = f.put(make([]byte, (len(children[d])+2)*32))
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		place[path] = f.put(files[path])
	}
	for _, d := range dirs {
		b, err := directory(d, label, children, place, files)
		if err != nil {
			return err
		}
		copy(f.data[(place[d]-firstData)*Sector:], b)
	}
	return nil
}

// directory returns the content of one directory.
func directory(
	dir, label string,
	children map[string][]string,
	place map[string]uint32,
	files map[string][]byte,
) ([]byte, error) {
	var b bytes.Buffer
	if dir == "" {
		b.Write(entry(fmt.Sprintf("%-11s", label), 0x08, 0, 0))
	} else {
		parent := uint32(0) // an entry ".." names the root as 0
		if i := strings.LastIndexByte(dir, '/'); i >= 0 {
			parent = place[dir[:i]]
		}
		b.Write(entry(".          ", 0x10, place[dir], 0))
		b.Write(entry("..         ", 0x10, parent, 0))
	}
	for _, path := range children[dir] {
		name, err := shortName(path[strings.LastIndexByte(path, '/')+1:])
		if err != nil {
			return nil, err
		}
		if data, ok := files[path]; ok {
			b.Write(entry(name, 0x20, place[path], uint32(len(data))))
		} else {
			b.Write(entry(name, 0x10, place[path], 0))
		}
	}
	return b.Bytes(), nil
}

// shortName returns a name as in a directory: 8 and 3 characters, padded with blanks.
func shortName(name string) (string, error) {
	base, ext, _ := strings.Cut(name, ".")
	if base == "" || len(base) > 8 || len(ext) > 3 || strings.Contains(ext, ".") || strings.ToUpper(name) != name {
		return "", fmt.Errorf("file name %q is not upper case with 8.3 characters", name)
	}
	return fmt.Sprintf("%-8s%-3s", base, ext), nil
}

func entry(name string, attr byte, cluster, size uint32) []byte {
	e := make([]byte, 32)
	copy(e, name)
	e[11] = attr
	binary.LittleEndian.PutUint16(e[16:], fatEpoch)
	binary.LittleEndian.PutUint16(e[18:], fatEpoch)
	binary.LittleEndian.PutUint16(e[20:], uint16(cluster>>16))
	binary.LittleEndian.PutUint16(e[24:], fatEpoch)
	binary.LittleEndian.PutUint16(e[26:], uint16(cluster))
	binary.LittleEndian.PutUint32(e[28:], size)
	return e
}

func fatBoot(sectors, perFAT uint32, label string) []byte {
	b := make([]byte, Sector)
	le := binary.LittleEndian
	copy(b, "\xeb\x58\x90PANDO   ")
	le.PutUint16(b[11:], Sector)
	b[13] = 1 // sectors in a cluster
	le.PutUint16(b[14:], reserved)
	b[16] = fats
	b[21] = 0xf8
	le.PutUint16(b[24:], 63)
	le.PutUint16(b[26:], 255)
	le.PutUint32(b[28:], espAt/Sector)
	le.PutUint32(b[32:], sectors)
	le.PutUint32(b[36:], perFAT)
	le.PutUint32(b[44:], rootCluster)
	le.PutUint16(b[48:], 1) // FSInfo
	le.PutUint16(b[50:], 6) // copy of this sector
	b[64], b[66] = 0x80, 0x29
	copy(b[67:], "pndo") // volume number
	copy(b[71:], fmt.Sprintf("%-11sFAT32   ", label))
	b[510], b[511] = 0x55, 0xaa
	return b
}

func fatInfo(free, next uint32) []byte {
	b := make([]byte, Sector)
	copy(b, "RRaA")
	copy(b[484:], "rrAa")
	binary.LittleEndian.PutUint32(b[488:], free)
	binary.LittleEndian.PutUint32(b[492:], next)
	b[510], b[511] = 0x55, 0xaa
	return b
}
