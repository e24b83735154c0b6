package api

import (
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// ImageTrace answers GET /v1/images/{name}/trace: what boots of a version read of its root, and its boot packs.
// Every size is in bytes, and a block that a boot read twice counts once.
type ImageTrace struct {
	Image    string       `json:"image"`
	Version  fleet.Digest `json:"version"`
	RootSize int64        `json:"root_size"`
	// boots whose read traces are kept, newest first; may be empty
	Boots  []TraceBoot   `json:"boots"`
	Read   int64         `json:"read"`   // by at least half of the boots; without boots, what the pack has
	Chunks int64         `json:"chunks"` // what that is on the wire without a pack
	Packs  []Pack        `json:"packs"`
	Stages []TraceStage  `json:"stages"` // of the newest boot, in order
	Files  []TraceFile   `json:"files"`  // the largest part read first
	Advice []TraceAdvice `json:"advice"` // what would shrink it, the largest first
}

// TraceBoot is one boot whose read trace is kept.
type TraceBoot struct {
	Boot        fleet.BootID `json:"boot"`
	Node        string       `json:"node"`
	Class       string       `json:"class,omitempty"` // of its hardware
	Received    time.Time    `json:"received"`
	Requests    int          `json:"requests"`
	Read        int64        `json:"read"`
	Pack        string       `json:"pack,omitempty"`   // object of the map of the boot pack that it had
	Hits        int64        `json:"hits,omitempty"`   // read, and in its pack
	Misses      int64        `json:"misses,omitempty"` // read, and not in its pack
	Wasted      int64        `json:"wasted,omitempty"` // in its pack until booted, fetched and not read
	WastedLater int64        `json:"late,omitempty"`   // in the rest of it, fetched and not read
}

// Pack is a boot pack of a version.
type Pack struct {
	Class    string    `json:"class,omitempty"` // hardware class; "": for all
	Sequence uint64    `json:"sequence"`
	Object   string    `json:"object"` // its map
	Made     time.Time `json:"made"`
	// that it was made of; 0: it was carried over, or is all of an extension
	Boots      int          `json:"boots"`
	From       fleet.Digest `json:"from,omitempty"` // the version that it was carried over from
	Pieces     int          `json:"pieces"`
	Raw        int64        `json:"raw"`         // what the pieces unpack to
	Stored     int64        `json:"stored"`      // what they are on the wire
	BootSet    int64        `json:"boot_set"`    // of that, what a boot needs until it has booted
	BootPieces int          `json:"boot_pieces"` // in so many pieces
}

// TraceStage is what the newest boot read up to a stage.
type TraceStage struct {
	Stage    trace.Stage `json:"stage"` // "later": after the last one
	Requests int         `json:"requests"`
	Read     int64       `json:"read"`
}

// TraceFile is what boots read of one file.
type TraceFile struct {
	Path  string        `json:"path"` // without a leading slash; "": inodes and directories
	Read  int64         `json:"read"`
	Size  int64         `json:"size,omitempty"`
	First time.Duration `json:"first"` // since the device was attached
	Stage trace.Stage   `json:"stage,omitempty"`
}

// TraceAdvice is something that boots read much of, and what to do about it.
type TraceAdvice struct {
	Text string `json:"text"`
	Read int64  `json:"read"`
}

// Later is the stage of reads after the last known stage.
const Later trace.Stage = "later"
