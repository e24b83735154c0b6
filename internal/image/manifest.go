package image

import (
	"pando/internal/chunk"
	"pando/internal/fleet"
)

// Manifest describes one image version: everything that a node needs to boot it. It contains nothing that differs
// between two builds of the same tree. Its exact bytes are signed, and their SHA-256 is the name of the version.
type Manifest struct {
	Format       int      `json:"format"`       // 1
	Architecture string   `json:"architecture"` // "amd64", "arm64"
	Kernel       Kernel   `json:"kernel"`
	Drivers      []Driver `json:"drivers"`
	CommandLine  []string `json:"command_line"` // kernel arguments the image wants
	Root         Root     `json:"root"`
	PackKey      string   `json:"pack_key,omitempty"` // minisign public key for boot packs; "": the server's key
	Sizes        Sizes    `json:"sizes"`
	Extends      *Extends `json:"extends,omitempty"` // nil: a version that nodes boot
}

// Kernel is the object of the distribution's kernel image, and the release that its modules are for.
type Kernel struct {
	Release string   `json:"release"` // uname -r
	Object  chunk.ID `json:"object"`
	Size    int64    `json:"size"` // bytes
}

// Driver is one cpio of kernel modules, compressed with zstd and sent as stored.
type Driver struct {
	Name   string   `json:"name"` // "base": for every node; "net": with every usual NIC; else the driver of a NIC
	Object chunk.ID `json:"object"`
	Size   int64    `json:"size"` // bytes

	// InsteadOf names the cpio that contains everything in this one. A node whose NICs are known gets the cpios for
	// them instead of that one; any other node gets that one. "": every node gets this cpio.
	InsteadOf string   `json:"instead_of,omitempty"`
	For       []string `json:"for,omitempty"` // modules of the NICs that the cpio is for
	PCI       PCIList  `json:"pci,omitempty"` // NICs that the cpio is for
}

// Kinds of root file systems, by the kernel's names.
const (
	Erofs    = "erofs"
	Squashfs = "squashfs"
)

// FileSystems lists the kinds of root file systems, the preferred one first.
func FileSystems() []string { return []string{Erofs, Squashfs} }

// Root is the root file system, stored as chunks.
type Root struct {
	FileSystem string   `json:"file_system"` // Erofs, Squashfs
	Index      chunk.ID `json:"index"`       // object of the index root
	Size       int64    `json:"size"`        // raw bytes, a multiple of 4096
	ChunkSize  int      `json:"chunk_size"`  // raw bytes of the largest chunk
}

// Sizes are for people and for progress bars. No decision may depend on them.
type Sizes struct {
	Stored int64 `json:"stored"` // bytes of all distinct root objects
	Files  int64 `json:"files"`
}

// Version returns the name of a version: the digest of its manifest's exact bytes.
func Version(manifest []byte) fleet.Digest { return fleet.Digest(chunk.Sum(manifest).String()) }
