package kernel

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"pando/internal/systree"
)

// images lists the kernel images of a tree, the preferred one first. Distributions have them in /boot
// (vmlinuz-RELEASE; Alpine's vmlinuz-lts, Arch's vmlinuz-linux, Gentoo's kernel-RELEASE), beside their modules, or
// where kernel-install puts them (/efi/TOKEN/RELEASE/linux).
func images(root *os.Root) []Kernel {
	var out []Kernel
	add := func(name, named string) {
		info, err := root.Stat(name)
		if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
			return
		}
		release := releaseOf(root, name, named)
		known := slices.ContainsFunc(out, func(k Kernel) bool { return k.Release == release })
		if release != "" && !known {
			out = append(out, Kernel{Path: name, Release: release})
		}
	}
	for _, dir := range []string{"boot", "boot/efi", "boot/firmware", "efi"} {
		for _, f := range entries(root, dir) {
			if named, ok := kernelName(f.Name()); ok {
				add(path.Join(dir, f.Name()), named)
			}
			for _, r := range entries(root, path.Join(dir, f.Name())) { // TOKEN/RELEASE/linux
				add(path.Join(dir, f.Name(), r.Name(), "linux"), r.Name())
			}
		}
	}
	for _, dir := range []string{"usr/lib/modules", "lib/modules"} {
		for _, f := range entries(root, dir) {
			for _, name := range []string{"vmlinuz", "Image", "bzImage"} {
				add(path.Join(dir, f.Name(), name), f.Name())
			}
		}
	}
	special := specials(out)
	slices.SortStableFunc(out, func(a, b Kernel) int {
		if special[a.Release] && !special[b.Release] {
			return 1
		}
		if special[b.Release] && !special[a.Release] {
			return -1
		}
		return systree.CompareReleases(b.Release, a.Release)
	})
	return out
}

// entries lists a directory of a tree by name, with links after all files.
func entries(root *os.Root, dir string) []fs.DirEntry {
	out := systree.ReadDir(root, dir)
	link := func(e fs.DirEntry) int { return int(e.Type() & fs.ModeSymlink) }
	slices.SortFunc(out, func(a, b fs.DirEntry) int {
		return cmp.Or(cmp.Compare(link(a), link(b)), cmp.Compare(a.Name(), b.Name()))
	})
	return out
}

// kernelName reports whether a file has a name that kernels have, and returns the release in the name, if any.
func kernelName(name string) (named string, ok bool) {
	for _, prefix := range []string{"vmlinuz", "vmlinux", "bzImage", "kernel", "Image", "linux"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return strings.TrimPrefix(rest, "-"), true
		}
	}
	return "", false
}

// releaseOf reads the release of a kernel image from its header, because names may only say "lts" or "linux". An
// arm64 image has the release only in its data, so its name counts if modules of that name exist.
func releaseOf(root *os.Root, name, named string) string {
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 16<<10)
	n, _ := io.ReadFull(f, head) // kernelArchitecture reports a truncated file
	head = head[:n]
	switch {
	case isBzImage(head):
		return cmp.Or(bzImageRelease(head), named)
	case hasModules(root, named), !isARM64(head) && !bytes.HasPrefix(head, gzipMagic):
		return named
	}
	if data, err := readKernel(root, name); err == nil && isARM64(data) {
		return cmp.Or(bannerRelease(data), named)
	}
	return named
}

func isBzImage(head []byte) bool { return len(head) > 0x264 && string(head[0x202:0x206]) == "HdrS" }

// bzImageRelease returns the release from the version string that the header of a bzImage points to (Linux,
// Documentation/arch/x86/boot.rst, kernel_version), or "".
func bzImageRelease(head []byte) string {
	at := int(binary.LittleEndian.Uint16(head[0x20e:])) + 0x200
	if at == 0x200 || at >= len(head) {
		return ""
	}
	text, _, _ := bytes.Cut(head[at:], []byte{0})
	release, _, _ := strings.Cut(string(text), " ")
	return release
}

// bannerRelease finds "Linux version RELEASE" in an arm64 kernel. A self-unpacking kernel is unpacked for that if it
// is packed with gzip or zstd (Linux, drivers/firmware/efi/libstub/zboot-header.S).
func bannerRelease(data []byte) string {
	if string(data[4:8]) == "zimg" {
		data = zbootPayload(data)
	}
	const banner = "Linux version "
	for {
		i := bytes.Index(data, []byte(banner))
		if i < 0 {
			return ""
		}
		data = data[i+len(banner):]
		release, _, ok := bytes.Cut(data[:min(len(data), 128)], []byte(" "))
		if ok && len(release) > 0 && '0' <= release[0] && release[0] <= '9' { // not the format string "%s"
			return string(release)
		}
	}
}

func zbootPayload(data []byte) []byte {
	le := binary.LittleEndian
	from, size := uint64(le.Uint32(data[8:])), uint64(le.Uint32(data[12:]))
	if from+size > uint64(len(data)) {
		return nil
	}
	var in io.Reader
	switch kind := string(data[24:min(len(data), 56)]); {
	case strings.HasPrefix(kind, "gzip"):
		z, err := gzip.NewReader(bytes.NewReader(data[from : from+size]))
		if err != nil {
			return nil
		}
		z.Multistream(false) // the payload is followed by its size
		in = z
	case strings.HasPrefix(kind, "zstd"):
		z, err := zstd.NewReader(bytes.NewReader(data[from:from+size]), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil
		}
		defer z.Close()
		in = z
	default:
		return nil
	}
	out, _ := io.ReadAll(io.LimitReader(in, maxKernel)) // what was unpacked before an error may have the banner
	return out
}

// flavours are words in the release of a kernel that was built for a special purpose: it lacks drivers, is slower, or
// runs only on some machines.
var flavours = []string{
	"debug", "dbg", "kasan", "cloud", "virt", "kvm", "kvmsmall", "aws", "azure", "gcp", "gke", "ibm", "oracle", "xen",
	"rt", "realtime", "lowlatency", "raspi", "rpi", "16k", "64k", "zfcpdump", "fips",
}

// specials reports for each release whether it was built for a special purpose.
func specials(list []Kernel) map[string]bool {
	out := map[string]bool{}
	all := releases(list)
	for _, r := range all {
		words := strings.FieldsFunc(strings.ToLower(r), func(c rune) bool { return strings.ContainsRune("-+._", c) })
		for _, w := range words {
			if slices.Contains(flavours, w) || slices.Contains(flavours, strings.TrimRight(w, "0123456789")) {
				out[r] = true
			}
		}
		if i := strings.LastIndexByte(r, '+'); i > 0 && slices.Contains(all, r[:i]) { // Fedora: RELEASE+debug
			out[r] = true
		}
	}
	return out
}
