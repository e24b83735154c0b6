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

// Record describes the boot pack of a version for one hardware class, and how it was made. The records of a version
// are a sidecar of its manifest.
type Record struct {
	Class     string    `json:"class,omitempty"` // hardware class; "": for all
	Sequence  uint64    `json:"sequence"`
	Object    chunk.ID  `json:"object"`    // the map
	Size      int64     `json:"size"`      // bytes of the map
	Signature string    `json:"signature"` // minisign, over the map
	Made      time.Time `json:"made"`
	// Boots is the number of boots whose read traces the pack was made from. 0: the pack was carried over from
	// another version, or has all of an extension.
	Boots      int          `json:"boots"`
	From       fleet.Digest `json:"from,omitempty"` // the version that the pack was carried over from
	Pieces     int          `json:"pieces"`
	Raw        int64        `json:"raw"`                   // unpacked bytes of the pieces
	Stored     int64        `json:"stored"`                // stored bytes of the pieces, as they are sent
	BootSet    int64        `json:"boot_set,omitempty"`    // bytes of Stored needed until booted; 0: not recorded
	BootPieces int          `json:"boot_pieces,omitempty"` // number of those pieces
}

// Replaced is a pack that new boots do not get. Boots in progress and running nodes may still read it.
type Replaced struct {
	Object   chunk.ID  `json:"object"` // the map
	Replaced time.Time `json:"replaced"`
}

// Records is the sidecar that lists the boot packs of a version.
type Records struct {
	Format   int        `json:"format"`
	Packs    []Record   `json:"packs"` // at most one for each class
	Replaced []Replaced `json:"replaced,omitempty"`
}

// Find returns the pack of a hardware class, or else the one for all classes.
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

// DecodeRecords decodes a sidecar. It ignores unknown keys.
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
