package image

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pando/internal/chunk"
	"pando/internal/fleet"
)

// PackRecord says which boot pack a version has for one hardware class, and how it came to be. The records of a version
// are a sidecar of its manifest.
type PackRecord struct {
	Class     string       `json:"class,omitempty"` // hardware class; "": for all
	Sequence  uint64       `json:"sequence"`
	Object    chunk.ID     `json:"object"`    // the map
	Size      int64        `json:"size"`      // bytes of the map
	Signature string       `json:"signature"` // minisign, over the map
	Made      time.Time    `json:"made"`
	Boots     int          `json:"boots"`          // boots whose read traces it was made of; 0: it was carried over
	From      fleet.Digest `json:"from,omitempty"` // the version that it was carried over from
	Pieces    int          `json:"pieces"`
	Raw       int64        `json:"raw"`    // bytes that the pieces unpack to
	Stored    int64        `json:"stored"` // bytes that the pieces have on the wire
}

// packRecords is the sidecar.
type packRecords struct {
	Format int          `json:"format"`
	Packs  []PackRecord `json:"packs"` // at most one of a class
}

// FindPack returns the pack for a hardware class: its own one, or the one for all.
func FindPack(records []PackRecord, class string) (PackRecord, bool) {
	for _, want := range []string{class, ""} {
		if i := slices.IndexFunc(records, func(r PackRecord) bool { return r.Class == want }); i >= 0 {
			return records[i], true
		}
	}
	return PackRecord{}, false
}

// EncodePacks returns the bytes of the sidecar.
func EncodePacks(records []PackRecord) ([]byte, error) {
	b, err := json.MarshalIndent(packRecords{Format, records}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode boot pack records: %w", err)
	}
	return append(b, '\n'), nil
}

// DecodePacks reads a sidecar. It takes keys it does not know.
func DecodePacks(b []byte) ([]PackRecord, error) {
	var r packRecords
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("decode boot pack records: %w", err)
	}
	if r.Format != Format {
		return nil, fmt.Errorf("decode boot pack records: format %d, this Pando knows %d; upgrade it", r.Format, Format)
	}
	return r.Packs, nil
}
