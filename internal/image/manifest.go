package image

import (
	"pando/internal/chunk"
	"pando/internal/fleet"
)

// Manifest describes one image version: everything a node needs to boot it, and nothing that differs
// between two builds of the same tree. Its exact bytes are signed, and their SHA-256 names the version.
type Manifest struct {
	Format       int      `json:"format"`       // 1
	Architecture string   `json:"architecture"` // "amd64", "arm64"
	Kernel       Kernel   `json:"kernel"`
	Drivers      []Driver `json:"drivers"`
	CommandLine  []string `json:"command_line"` // kernel arguments the image wants
	Root         Root     `json:"root"`
	PackKey      string   `json:"pack_key,omitempty"` // minisign public key that may sign boot packs; "": the server's
	Sizes        Sizes    `json:"sizes"`
	Extends      *Extends `json:"extends,omitempty"` // nil: a version that nodes boot
}

// Kernel is the distribution's kernel image as an object, and the release that its modules are for.
type Kernel struct {
	Release string   `json:"release"` // uname -r
	Object  chunk.ID `json:"object"`
	Size    int64    `json:"size"` // bytes
}

// Driver is one cpio of kernel modules, compressed with zstd, sent as it is.
type Driver struct {
	Name   string   `json:"name"` // "base": what every node needs; "net": every usual NIC; else a NIC's driver
	Object chunk.ID `json:"object"`
	Size   int64    `json:"size"` // bytes

	// InsteadOf names a cpio that has all that is in this one. A node whose NICs are known is sent those that are for
	// them and not that one; any other node is sent that one and none of these. "": sent to every node.
	InsteadOf string   `json:"instead_of,omitempty"`
	For       []string `json:"for,omitempty"` // modules of NICs that it is for
	PCI       PCIList  `json:"pci,omitempty"` // NICs that it is for
}

// Kinds of root file systems: the names that the kernel has for them.
const (
	Erofs    = "erofs"
	Squashfs = "squashfs"
)

// FileSystems lists the kinds, the one to be preferred first.
func FileSystems() []string { return []string{Erofs, Squashfs} }

// Root is the root file system: an index of raw extents.
type Root struct {
	FileSystem string   `json:"file_system"` // Erofs, Squashfs
	Index      chunk.ID `json:"index"`       // the index root, an object
	Size       int64    `json:"size"`        // raw bytes, a multiple of 4096
	ChunkSize  int      `json:"chunk_size"`  // raw bytes of the largest chunk
}

// Sizes are for people and for progress bars; nothing is decided by them.
type Sizes struct {
	Stored int64 `json:"stored"` // bytes of all distinct root objects
	Files  int64 `json:"files"`
}

// Version returns the digest of a manifest's exact bytes: the name of the version.
func Version(manifest []byte) fleet.Digest { return fleet.Digest(chunk.Sum(manifest).String()) }
