package api

import (
	"time"

	"pando/internal/fleet"
)

// ImageSlim answers GET /v1/images/{name}/slim: which files of a version no recorded boot read, and what may slow its
// start.
type ImageSlim struct {
	Image    string        `json:"image"`
	Version  fleet.Digest  `json:"version"`
	Boots    int           `json:"boots"`    // boots with a read trace; 0: reads are unknown
	Size     int64         `json:"size"`     // bytes of all files, raw
	Unread   int64         `json:"unread"`   // raw bytes of the files of which no boot read a block
	Packages []SlimPackage `json:"packages"` // packages of which no boot read a block, the largest first
	// directories with files that no package installed and no boot read, the largest first
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
	Took   time.Duration `json:"took,omitempty"`   // the longest start that a running node of this version reported
	Advice string        `json:"advice,omitempty"` // absent: there is nothing to say
}
