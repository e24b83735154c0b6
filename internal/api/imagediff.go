package api

import (
	"time"

	"pando/internal/fleet"
)

// ImageDiff answers GET /v1/images/{name}/diff: what a node that has one version fetches for another, in bytes on the
// wire.
type ImageDiff struct {
	From     fleet.Ref       `json:"from"`
	To       fleet.Ref       `json:"to"`
	FromHas  fleet.Digest    `json:"from_version"`
	ToHas    fleet.Digest    `json:"to_version"`
	Root     int64           `json:"root"`    // chunks
	Whole    int64           `json:"whole"`   // all chunks of the second version
	Index    int64           `json:"index"`   // index root and pages
	Kernel   int64           `json:"kernel"`  // 0: the same
	Drivers  int64           `json:"drivers"` // for a node whose NICs are not known; 0: the same
	Pack     int64           `json:"pack"`    // pieces of the boot pack that the first version's does not have
	Packages []PackageChange `json:"packages"`
	Files    []FileChange    `json:"files"` // the most bytes first
}

// PackageChange is a package that two versions do not have alike, or that is fetched in part with one.
type PackageChange struct {
	Name string `json:"name"`
	// "added", "removed", "changed": its version; "rebuilt": its version is the same and files differ; "together": it
	// shares chunks with changed files
	Change PackageKind `json:"change"`
	Was    string      `json:"was,omitempty"` // version; absent: it is new
	Is     string      `json:"is,omitempty"`  // absent: it is gone
	Files  int         `json:"files"`         // of the changed files, those that it installed
	Fetch  int64       `json:"fetch"`         // bytes of these, and of its files that share chunks with changed ones
}

// PackageKind is how a package changed.
type PackageKind string

// The kinds, in the order in which they are told.
const (
	PackageAdded    PackageKind = "added"
	PackageRemoved  PackageKind = "removed"
	PackageChanged  PackageKind = "changed"
	PackageRebuilt  PackageKind = "rebuilt"
	PackageTogether PackageKind = "together"
)

// FileChange is a file that two versions do not have alike.
type FileChange struct {
	Path string `json:"path"` // without a leading slash; "": inodes and directories
	// "added", "removed", "changed", "mode"; "together": it shares a chunk with a changed file
	Change  string `json:"change"`
	Was     int64  `json:"was"`               // bytes of the file
	Is      int64  `json:"is"`                // bytes of the file
	Fetch   int64  `json:"fetch"`             // bytes on the wire
	Package string `json:"package,omitempty"` // that installed it
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
	Added   time.Time    `json:"added"`             // when it got the image's name
	Built   time.Time    `json:"built,omitzero"`    // by its provenance
	Builder string       `json:"builder,omitempty"` // version of Pando
	Host    string       `json:"host,omitempty"`    // where it was built
	Of      string       `json:"of,omitempty"`      // recipe, directory or source
	Source  string       `json:"source,omitempty"`  // digest of what the build was asked for
	Stored  int64        `json:"stored"`            // bytes of its root's objects
	New     int64        `json:"new"`               // bytes of all its objects that no older version of the image names
	InUse   []string     `json:"in_use,omitempty"`
}

// TagMove is one change of a tag.
type TagMove struct {
	Tag     string       `json:"tag"`
	Version fleet.Digest `json:"version,omitempty"` // absent: it was deleted
	Was     fleet.Digest `json:"was,omitempty"`     // absent: it was new
	At      time.Time    `json:"at"`
	Who     string       `json:"who"` // the operator's token, or that it was done on the server's machine
}
