package api

import (
	"time"

	"pando/internal/fleet"
)

// Image is a name with its versions and tags.
type Image struct {
	Name     string                  `json:"name"`
	Tags     map[string]fleet.Digest `json:"tags"`
	Versions []Version               `json:"versions"` // newest first

	// tags that stayed when a new version of an extension was added, because nodes get the extension by them
	TagsKept []string `json:"tags_kept,omitempty"`
}

// Version is one immutable version of an image, from its manifest and provenance.
type Version struct {
	Digest       fleet.Digest `json:"digest"`
	Tags         []string     `json:"tags,omitempty"`
	Architecture string       `json:"architecture,omitempty"`
	Kernel       string       `json:"kernel,omitempty"` // release
	KernelSize   int64        `json:"kernel_size,omitempty"`
	DriversSize  int64        `json:"drivers_size,omitempty"` // for a node with an unknown NIC
	FileSystem   string       `json:"file_system,omitempty"`  // of the root: "erofs", "squashfs"
	RootSize     int64        `json:"root_size,omitempty"`    // raw bytes
	StoredSize   int64        `json:"stored_size,omitempty"`  // bytes of its distinct objects
	Files        int64        `json:"files,omitempty"`
	Built        time.Time    `json:"built,omitzero"`
	Recipe       string       `json:"recipe,omitempty"`
	Extends      fleet.Digest `json:"extends,omitempty"` // the version that it is an extension of; "": nodes boot it
	InUse        []string     `json:"in_use,omitempty"`  // what uses it: "group lab", "node pc001"
	// says that boots take longer than those of the previous version, and in which stage; only of the newest versions
	Slower string `json:"slower,omitempty"`
	// why the server gets no journals from its nodes, and what to do; "": it gets them, or it collects none
	NoLogs string `json:"no_logs,omitempty"`
}

// ImageList answers GET /v1/images.
type ImageList struct {
	Images []Image `json:"images"`
}

// VersionAdd is the body of POST /v1/images/{name}/versions: it adds a version of the store to an image, and moves tags
// to it.
type VersionAdd struct {
	Version fleet.Digest `json:"version"`
	Tags    []string     `json:"tags,omitempty"`

	// for an extension: also moves tags by which nodes get it; these nodes get the version at once
	Release bool `json:"release,omitempty"`
}

// TagSet is the body of PUT /v1/images/{name}/tags/{tag}.
type TagSet struct {
	Ref    fleet.Ref `json:"ref"` // what the tag should point at: "lab:latest", "lab@sha256:..."
	DryRun bool      `json:"dry_run,omitempty"`
}

// TagChange answers PUT and DELETE of a tag.
type TagChange struct {
	Tag   fleet.Tag    `json:"tag"`
	Was   fleet.Digest `json:"was,omitempty"`
	Nodes []string     `json:"nodes"` // nodes whose next boot differs

	Follow []string `json:"follow,omitempty"` // nodes that get it as an extension; running nodes switch at once
}
