package api

import (
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// ImageTrace answers GET /v1/images/{name}/trace: what boots of a version read of its root, and its boot packs. Sizes
// are bytes. A block that a boot read twice counts once.
type ImageTrace struct {
	Image    string       `json:"image"`
	Version  fleet.Digest `json:"version"`
	RootSize int64        `json:"root_size"`
	// boots whose read traces are kept, newest first; may be empty
	Boots  []TraceBoot   `json:"boots"`
	Read   int64         `json:"read"`   // read by at least half of the boots; without traces, the content of the pack
	Chunks int64         `json:"chunks"` // size on the wire of these chunks without a pack
	Packs  []Pack        `json:"packs"`
	Stages []TraceStage  `json:"stages"` // of the newest boot, in order
	Files  []TraceFile   `json:"files"`  // the file of which most was read first
	Advice []TraceAdvice `json:"advice"` // what would reduce the reads, the largest first
}

// TraceBoot is one boot whose read trace is kept.
type TraceBoot struct {
	Boot        fleet.BootID `json:"boot"`
	Node        string       `json:"node"`
	Class       string       `json:"class,omitempty"` // of the node's hardware
	Received    time.Time    `json:"received"`
	Requests    int          `json:"requests"`
	Read        int64        `json:"read"`
	Pack        string       `json:"pack,omitempty"`   // object of its boot pack's map
	Hits        int64        `json:"hits,omitempty"`   // bytes read that were in the pack
	Misses      int64        `json:"misses,omitempty"` // bytes read that were not in the pack
	Wasted      int64        `json:"wasted,omitempty"` // bytes fetched and not read, of the part until booted
	WastedLater int64        `json:"late,omitempty"`   // bytes fetched and not read, of the rest of the pack
}

// Pack is a boot pack of a version.
type Pack struct {
	Class    string    `json:"class,omitempty"` // hardware class; "": for all
	Sequence uint64    `json:"sequence"`
	Object   string    `json:"object"` // object of its map
	Made     time.Time `json:"made"`
	// boots whose reads made it; 0: it was carried over, or has all of an extension
	Boots      int          `json:"boots"`
	From       fleet.Digest `json:"from,omitempty"` // version that it was carried over from
	Pieces     int          `json:"pieces"`
	Raw        int64        `json:"raw"`         // unpacked bytes of the pieces
	Stored     int64        `json:"stored"`      // their bytes on the wire
	BootSet    int64        `json:"boot_set"`    // of Stored, what a boot needs until it has booted
	BootPieces int          `json:"boot_pieces"` // number of pieces of BootSet
}

// TraceStage is what the newest boot read up to a stage.
type TraceStage struct {
	Stage    trace.Stage `json:"stage"` // "later": after the last stage
	Requests int         `json:"requests"`
	Read     int64       `json:"read"`
}

// TraceFile is what boots read of one file.
type TraceFile struct {
	Path  string        `json:"path"` // without a leading slash; "": inodes and directories
	Read  int64         `json:"read"`
	Size  int64         `json:"size,omitempty"`
	First time.Duration `json:"first"` // time of the first read, since the device was attached
	Stage trace.Stage   `json:"stage,omitempty"`
}

// TraceAdvice is something that boots read much of, and how to avoid it.
type TraceAdvice struct {
	Text string `json:"text"`
	Read int64  `json:"read"`
}

// Later is the stage of reads after the last known stage.
const Later trace.Stage = "later"
