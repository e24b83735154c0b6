package main

import (
	"bytes"
	"context"
	"debug/elf"
	"debug/pe"
	"encoding/binary"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/store"
	"pando/internal/testkit/loaderkit"
)

// treeRelease is the release of the kernel in a tree that `bootable` makes.
const treeRelease = "6.1.0-test"

// bootable makes the smallest tree that can be built: bootable tree. Its kernel has the drivers of every boot built in,
// and its only module requires firmware.
func bootable(ts *testscript.TestScript, _ bool, args []string) {
	tree := ts.MkAbs(args[0])
	modules := "usr/lib/modules/" + treeRelease
	for name, data := range map[string][]byte{
		"boot/vmlinuz-" + treeRelease:   kernelImage(),
		modules + "/kernel/r8169.ko":    moduleWith("license=GPL\x00firmware=rtl_nic/rtl8168.fw\x00"),
		modules + "/modules.builtin":    []byte("nbd.ko\nerofs.ko\noverlay.ko\naf_packet.ko\n"),
		"etc/machine-id":                nil,
		"sbin/init":                     []byte("#!/bin/sh\n"),
		"etc/hostname":                  []byte("builder\n"),
		"usr/lib/firmware/rtl_nic/none": nil,
	} {
		path := filepath.Join(tree, name)
		ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
		ts.Check(os.WriteFile(path, data, 0o644))
	}
}

// kernelImage returns a file with the header of an x86 kernel: Linux, Documentation/arch/x86/boot.rst.
func kernelImage() []byte {
	const size = 40 << 10
	b := make([]byte, size)
	b[0x1f1] = 4                                                      // sectors of the part that starts
	binary.LittleEndian.PutUint32(b[0x1f4:], uint32((size-5*512)/16)) // the rest, in 16 bytes
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x20e:], 0x1000) // where its version stands, less 0x200
	copy(b[0x1200:], treeRelease+" (builder@host) #1 SMP\x00")
	return b
}

// moduleWith returns a module that contains only the given modinfo.
func moduleWith(modinfo string) []byte {
	const header = 64
	names := "\x00.modinfo\x00.shstrtab\x00"
	h := elf.Header64{Type: uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: header,
		Shoff: uint64(header + len(modinfo) + len(names)), Shentsize: 64, Shnum: 3, Shstrndx: 2}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	var b bytes.Buffer
	for _, part := range []any{h, []byte(modinfo), []byte(names), []elf.Section64{{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: header, Size: uint64(len(modinfo))},
		{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(header + len(modinfo)), Size: uint64(len(names))}}} {
		_ = binary.Write(&b, binary.LittleEndian, part) // to memory, of types with a fixed size
	}
	return b.Bytes()
}

// tmpfs mounts a tmpfs until the script ends: tmpfs dir size=3m.
func tmpfs(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(unix.Mount("tmpfs", dir, "tmpfs", 0, args[1]))
	ts.Defer(func() { ts.Check(unix.Unmount(dir, unix.MNT_DETACH)) })
}

// flip changes a bit of the object with the content of a file, in a store with one version: flip store usr/bin/sh.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	d, err := store.OpenDir(ts.MkAbs(args[0]))
	ts.Check(err)
	versions, err := d.Versions()
	ts.Check(err)
	kept, err := d.GetVersion(versions[0])
	ts.Check(err)
	m, err := image.Decode(kept.Manifest)
	ts.Check(err)
	root, err := imagefs.ReadMap(ctx, d, m)
	ts.Check(err)
	f, ok := root.Find(args[1])
	if !ok {
		ts.Fatalf("flip: no file %s", args[1])
	}
	ts.Check(d.UsesOf(ctx, m, func(u store.Use) {
		at := int64(f.Start) * chunk.BlockSize
		if u.Part != store.PartChunk || at < u.Start || at >= u.Start+u.Raw {
			return
		}
		data, err := os.ReadFile(d.ObjectPath(u.ID))
		ts.Check(err)
		data[len(data)/2] ^= 4
		ts.Check(os.WriteFile(d.ObjectPath(u.ID), data, 0o644))
	}))
}

// loaderFile makes what looks like a build of iPXE: loader FILE bios, or loader FILE amd64|arm64 VERSION [digests].
func loaderFile(ts *testscript.TestScript, _ bool, args []string) {
	data := loaderkit.BIOS()
	if args[1] != "bios" {
		machine := uint16(pe.IMAGE_FILE_MACHINE_AMD64)
		if args[1] == "arm64" {
			machine = pe.IMAGE_FILE_MACHINE_ARM64
		}
		data = loaderkit.IPXE(machine, args[2], len(args) > 3).Bytes()
	}
	path := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	ts.Check(os.WriteFile(path, data, 0o644))
}
