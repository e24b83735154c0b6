package api

import (
	"time"

	"pando/internal/fleet"
)

// StoreCollect is the body of POST /v1/store/collect: it removes unused versions, then objects that no version names.
type StoreCollect struct {
	DryRun bool `json:"dry_run,omitempty"`
	// newest versions of each image that stay; nil: the server's own choice
	Keep  *int           `json:"keep,omitempty"`
	Grace *time.Duration `json:"grace,omitempty"` // what was written less long ago stays; nil: the server's own choice
}

// StoreCollected answers it.
type StoreCollected struct {
	DryRun     bool             `json:"dry_run"` // true: nothing was removed
	Versions   []CollectVersion `json:"versions"`
	Objects    int              `json:"objects"` // that nothing names any more
	Bytes      int64            `json:"bytes"`
	Fresh      int              `json:"fresh"` // objects that nothing names, and that are too young to go
	FreshBytes int64            `json:"fresh_bytes"`
	Work       []WorkDir        `json:"work"`                 // directories of builds that nobody went on with
	WorkStays  []WorkDir        `json:"work_stays,omitempty"` // those that stay, and why
	Held       []HeldVersion    `json:"held"`                 // versions that stay, and why
}

// CollectVersion is a version to remove, by one of its names.
type CollectVersion struct {
	Image   string       `json:"image,omitempty"` // "": no image has it
	Version fleet.Digest `json:"version"`
}

// HeldVersion is a version that stays.
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

// The reasons: a build uses it or it is no build's; a change of an image that could not be stored is kept; layers of
// recipes are kept for the next build; it was used less long ago than what was asked for.
const (
	WorkBusy    WorkWhy = "in use"
	WorkChanged WorkWhy = "a change that could not be stored"
	WorkLayers  WorkWhy = "layers for the next build"
	WorkYoung   WorkWhy = "young"
)

// StoreUsage answers GET /v1/store/usage. Bytes are those of the files.
type StoreUsage struct {
	Objects int          `json:"objects"`
	Bytes   int64        `json:"bytes"` // of all objects; the parts below but Work and Layers add up to it
	Images  []ImageUsage `json:"images"`
	Shared  int64        `json:"shared"`  // of these bytes, what several images share, boot packs left out
	Packs   int64        `json:"packs"`   // what boot packs alone name
	Unnamed int64        `json:"unnamed"` // what nothing names: of interrupted builds, or for the next `pando store gc`
	Work    int64        `json:"work"`    // unfinished builds, outside of the store
	Layers  int64        `json:"layers"`  // what recipes were built from, for the next build; outside of the store, too
	Whole   int64        `json:"whole"`   // what the versions would take if each were kept by itself
	Broken  []string     `json:"broken"`  // versions whose index cannot be read, with why
}

// ImageUsage is the space of one image. An object belongs to the image if no other image names it.
type ImageUsage struct {
	Image    string         `json:"image"` // "": versions that no image has
	Bytes    int64          `json:"bytes"` // that only this image names
	Total    int64          `json:"total"` // that it names
	Versions []VersionUsage `json:"versions"`
}

// VersionUsage is the space of one version.
type VersionUsage struct {
	Version fleet.Digest `json:"version"`
	Tags    []string     `json:"tags,omitempty"`
	Total   int64        `json:"total"`          // of all objects that it names
	Own     int64        `json:"own"`            // that no other version names: what its removal frees
	Shared  int64        `json:"shared"`         // the rest
	New     int64        `json:"new"`            // that no older version of the same image names
	Pack    int64        `json:"pack,omitempty"` // of its boot packs, shared or not
}
