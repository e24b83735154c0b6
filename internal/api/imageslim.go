package api

import (
	"time"

	"pando/internal/fleet"
)

// ImageSlim answers GET /v1/images/{name}/slim: what of a version no recorded boot read, and what may slow its start.
type ImageSlim struct {
	Image    string        `json:"image"`
	Version  fleet.Digest  `json:"version"`
	Boots    int           `json:"boots"`    // whose read traces were looked at; 0: nothing is known of what is read
	Size     int64         `json:"size"`     // bytes of all files, raw
	Unread   int64         `json:"unread"`   // bytes of the files of which no boot read a block
	Packages []SlimPackage `json:"packages"` // of which no boot read a block, the largest first
	// directories of files that no package installed and no boot read, the largest first
	Places []SlimPackage `json:"places"`
	Units  []SlimUnit    `json:"units"`
}

// SlimPackage is a package, or a directory, of which no boot read anything.
type SlimPackage struct {
	Name  string `json:"name"`
	Files int    `json:"files"`
	Size  int64  `json:"size"` // bytes of its files, raw
}

// SlimUnit is a unit that starts, or a generator that runs, in every boot.
type SlimUnit struct {
	Name   string        `json:"name"`
	Kind   string        `json:"kind"`             // "unit", "generator"
	Took   time.Duration `json:"took,omitempty"`   // the longest that a running node of this version reports
	Advice string        `json:"advice,omitempty"` // absent: nothing is known against it
}
