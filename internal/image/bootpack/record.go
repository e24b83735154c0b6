package bootpack

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
)

// Record says which boot pack a version has for one hardware class, and how it came to be. The records of a version
// are a sidecar of its manifest.
type Record struct {
	Class     string    `json:"class,omitempty"` // hardware class; "": for all
	Sequence  uint64    `json:"sequence"`
	Object    chunk.ID  `json:"object"`    // the map
	Size      int64     `json:"size"`      // bytes of the map
	Signature string    `json:"signature"` // minisign, over the map
	Made      time.Time `json:"made"`
	// boots whose read traces it was made of; 0: it was carried over, or is all of an extension
	Boots      int          `json:"boots"`
	From       fleet.Digest `json:"from,omitempty"` // the version that it was carried over from
	Pieces     int          `json:"pieces"`
	Raw        int64        `json:"raw"`                   // bytes that the pieces unpack to
	Stored     int64        `json:"stored"`                // bytes that the pieces have on the wire
	BootSet    int64        `json:"boot_set,omitempty"`    // of these, those until booted; 0: not noted
	BootPieces int          `json:"boot_pieces,omitempty"` // pieces that these are
}

// Replaced is a pack that no boot gets any more and that boots under way, and nodes that run, may still read.
type Replaced struct {
	Object   chunk.ID  `json:"object"` // the map
	Replaced time.Time `json:"replaced"`
}

// Records is the sidecar of a manifest that says which boot packs its version has.
type Records struct {
	Format   int        `json:"format"`
	Packs    []Record   `json:"packs"` // at most one of a class
	Replaced []Replaced `json:"replaced,omitempty"`
}

// Find returns the pack for a hardware class: its own one, or the one for all.
func Find(records []Record, class string) (Record, bool) {
	for _, want := range []string{class, ""} {
		if i := slices.IndexFunc(records, func(r Record) bool { return r.Class == want }); i >= 0 {
			return records[i], true
		}
	}
	return Record{}, false
}

// EncodeRecords returns the bytes of the sidecar.
func EncodeRecords(p Records) ([]byte, error) {
	p.Format = image.Format
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode boot pack records: %w", err)
	}
	return append(b, '\n'), nil
}

// DecodeRecords reads a sidecar. It takes keys it does not know.
func DecodeRecords(b []byte) (p Records, err error) {
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("decode boot pack records: %w", err)
	}
	if p.Format != image.Format {
		return p, fmt.Errorf(
			"decode boot pack records: format %d, this Pando knows %d; upgrade it",
			p.Format,
			image.Format,
		)
	}
	return p, nil
}
