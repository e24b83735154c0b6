package api

import (
	"time"

	"pando/internal/fleet"
)

// StoreCollect is the body of POST /v1/store/collect: it removes unused versions, then objects that no version names.
type StoreCollect struct {
	DryRun bool `json:"dry_run,omitempty"`
	// number of newest versions of each image that stay; nil: the server's default
	Keep  *int           `json:"keep,omitempty"`
	Grace *time.Duration `json:"grace,omitempty"` // what is younger than this stays; nil: the server's default
}

// StoreCollected answers POST /v1/store/collect.
type StoreCollected struct {
	DryRun     bool             `json:"dry_run"` // true: nothing was removed
	Versions   []CollectVersion `json:"versions"`
	Objects    int              `json:"objects"` // unreferenced objects that were removed
	Bytes      int64            `json:"bytes"`
	Fresh      int              `json:"fresh"` // unreferenced objects that are too young to remove
	FreshBytes int64            `json:"fresh_bytes"`
	Work       []WorkDir        `json:"work"`                 // directories of abandoned builds
	WorkStays  []WorkDir        `json:"work_stays,omitempty"` // directories of builds that stay, and why
	Held       []HeldVersion    `json:"held"`                 // versions that stay, and why
}

// CollectVersion is a version to remove. Image is one of the images that have it.
type CollectVersion struct {
	Image   string       `json:"image,omitempty"` // "": no image has it
	Version fleet.Digest `json:"version"`
}

// HeldVersion is a version that stays, and why.
type HeldVersion struct {
	Image   string       `json:"image,omitempty"`
	Version fleet.Digest `json:"version"`
	// "tag lab:stable", "group lab", "node pc001", "one of the newest 3 of lab", "written 2h ago"
	By []string `json:"by"`
}

// WorkDir is the directory of an unfinished build.
type WorkDir struct {
	Name  string    `json:"name"`
	Bytes int64     `json:"bytes"`
	Used  time.Time `json:"used"` // last change
	Why   WorkWhy   `json:"why,omitempty"`
}

// WorkWhy is why the directory of an unfinished build stays.
type WorkWhy string

// The reasons: a build uses the directory, or no build made it; it has a change of an image that could not be stored;
// it has layers of recipes for the next build; it was used more recently than the requested age.
const (
	WorkBusy    WorkWhy = "in use"
	WorkChanged WorkWhy = "a change that could not be stored"
	WorkLayers  WorkWhy = "layers for the next build"
	WorkYoung   WorkWhy = "young"
)

// StoreUsage answers GET /v1/store/usage. Bytes are file sizes.
type StoreUsage struct {
	Objects int          `json:"objects"`
	Bytes   int64        `json:"bytes"` // of all objects: the sum of Images' Bytes, Shared, Packs and Unnamed
	Images  []ImageUsage `json:"images"`
	Shared  int64        `json:"shared"`  // objects of several images, without boot packs
	Packs   int64        `json:"packs"`   // objects that only boot packs reference
	Unnamed int64        `json:"unnamed"` // unreferenced: of interrupted builds, or for `pando store gc`
	Work    int64        `json:"work"`    // unfinished builds, not in the store
	Layers  int64        `json:"layers"`  // layers of recipes for the next build, not in the store
	Whole   int64        `json:"whole"`   // size of all versions if they shared no objects
	Broken  []string     `json:"broken"`  // versions whose index cannot be read, and why
}

// ImageUsage is the space of one image. An object belongs to the image if no other image names it.
type ImageUsage struct {
	Image    string         `json:"image"` // "": versions that no image has
	Bytes    int64          `json:"bytes"` // objects that only this image references
	Total    int64          `json:"total"` // objects that it references
	Versions []VersionUsage `json:"versions"`
}

// VersionUsage is the space of one version. An object may belong to several versions.
type VersionUsage struct {
	Version fleet.Digest `json:"version"`
	Tags    []string     `json:"tags,omitempty"`
	Total   int64        `json:"total"`          // all objects that it references
	Own     int64        `json:"own"`            // objects that no other version references: what its removal frees
	Shared  int64        `json:"shared"`         // the rest
	New     int64        `json:"new"`            // objects that no older version of the image references
	Pack    int64        `json:"pack,omitempty"` // objects of its boot packs, shared or not
}
