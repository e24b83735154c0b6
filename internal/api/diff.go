package api

import (
	"time"

	"pando/internal/fleet"
)

// ImageDiff answers GET /v1/images/{name}/diff: what a node that has one version fetches for another. Sizes are bytes
// on the wire.
type ImageDiff struct {
	From     fleet.Ref       `json:"from"`
	To       fleet.Ref       `json:"to"`
	FromHas  fleet.Digest    `json:"from_version"`
	ToHas    fleet.Digest    `json:"to_version"`
	Root     int64           `json:"root"`    // chunks
	Whole    int64           `json:"whole"`   // all chunks of the second version
	Index    int64           `json:"index"`   // root and pages of the index
	Kernel   int64           `json:"kernel"`  // 0: the same
	Drivers  int64           `json:"drivers"` // for a node with unknown NICs; 0: the same
	Pack     int64           `json:"pack"`    // pieces of the boot pack that the first version's pack lacks
	Packages []PackageChange `json:"packages"`
	Files    []FileChange    `json:"files"` // ordered by Fetch, the largest first
}

// PackageChange is a package that differs between two versions, or of which a part is fetched with another.
type PackageChange struct {
	Name string `json:"name"`
	// "added", "removed", "changed": its version differs; "rebuilt": same version, but files differ; "together": it
	// shares chunks with changed files
	Change PackageKind `json:"change"`
	Was    string      `json:"was,omitempty"` // version; absent: it is new
	Is     string      `json:"is,omitempty"`  // absent: it is gone
	Files  int         `json:"files"`         // of the changed files, how many the package installed
	Fetch  int64       `json:"fetch"`         // bytes of these, and of its files that share chunks with them
}

// PackageKind is how a package changed.
type PackageKind string

// The kinds, in the order of displays.
const (
	PackageAdded    PackageKind = "added"
	PackageRemoved  PackageKind = "removed"
	PackageChanged  PackageKind = "changed"
	PackageRebuilt  PackageKind = "rebuilt"
	PackageTogether PackageKind = "together"
)

// FileChange is a file that differs between two versions, or that is fetched with another.
type FileChange struct {
	Path string `json:"path"` // without a leading slash; "": inodes and directories
	// "added", "removed", "changed", "mode"; "together": it shares a chunk with a changed file
	Change  string `json:"change"`
	Was     int64  `json:"was"`               // bytes of the file
	Is      int64  `json:"is"`                // bytes of the file
	Fetch   int64  `json:"fetch"`             // bytes on the wire
	Package string `json:"package,omitempty"` // the package that installed it
}

// ImageHistory answers GET /v1/images/{name}/history.
type ImageHistory struct {
	Image    string           `json:"image"`
	Versions []HistoryVersion `json:"versions"` // newest first
	Tags     []TagMove        `json:"tags"`     // moves of its tags, newest first
}

// HistoryVersion is one version and its origin.
type HistoryVersion struct {
	Digest  fleet.Digest `json:"digest"`
	Tags    []string     `json:"tags,omitempty"`
	Added   time.Time    `json:"added"`             // when it was added to the image
	Built   time.Time    `json:"built,omitzero"`    // according to its provenance
	Builder string       `json:"builder,omitempty"` // version of Pando
	Host    string       `json:"host,omitempty"`    // where it was built
	Of      string       `json:"of,omitempty"`      // recipe, directory or source
	Source  string       `json:"source,omitempty"`  // digest of the build's inputs
	Stored  int64        `json:"stored"`            // bytes of its root's objects
	New     int64        `json:"new"`               // bytes of its objects that no older version of the image has
	InUse   []string     `json:"in_use,omitempty"`
}

// TagMove is one change of a tag.
type TagMove struct {
	Tag     string       `json:"tag"`
	Version fleet.Digest `json:"version,omitempty"` // absent: the tag was deleted
	Was     fleet.Digest `json:"was,omitempty"`     // absent: the tag was new
	At      time.Time    `json:"at"`
	Who     string       `json:"who"` // the operator's token, or that it was done on the server's machine
}
