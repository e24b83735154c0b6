package blockapi

import (
	"fmt"
	"strconv"
	"time"
)

// Message describes for the timeline how well the boot pack fit the boot.
func (r Recording) Message() string {
	mb := func(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
	cut := ""
	if r.Cut {
		cut = fmt.Sprintf("; only the first %d reads are recorded", r.Count)
	}
	if r.Pack == "" {
		return fmt.Sprintf(
			"%d reads of %s recorded for the boot pack, %s received",
			r.Count,
			mb(r.Read),
			mb(r.Received),
		) + cut
	}
	text := fmt.Sprintf("boot pack: %s of %s read were in it, %s of it were not read, %s received",
		mb(r.Hits), mb(r.Read), mb(r.Wasted), mb(r.Received))
	if r.WastedLater > 0 {
		text += ", " + mb(r.WastedLater) + " of what it has for later were not read"
	}
	if r.Peers > 0 {
		text += ", " + mb(r.Peers) + " of it from peers"
	}
	return text + cut
}

// Attrs returns the numbers of Message in bytes.
func (r Recording) Attrs() map[string]string {
	out := map[string]string{}
	for name, n := range map[string]int64{"read": r.Read, "received": r.Received, "peers": r.Peers, "hits": r.Hits,
		"misses": r.Misses, "wasted": r.Wasted, "late": r.WastedLater} {
		out[name] = strconv.FormatInt(n, 10)
	}
	if r.Pack != "" {
		out["pack"] = r.Pack
	}
	return out
}

// Recording is what a boot read of its root until the recording ended, and how well its boot pack fit.
type Recording struct {
	Began time.Duration `json:"began"` // CLOCK_MONOTONIC when the recording began; 0: unknown
	Reads []byte        `json:"reads"` // see trace.EncodeReads
	Count int           `json:"count"` // number of recorded reads
	// reads before this block daemon's start are missing, so no boot pack can be made from the recording
	Partial  bool  `json:"partial"`
	Cut      bool  `json:"cut,omitempty"` // later reads are missing; the recording is used nevertheless
	Read     int64 `json:"read"`          // bytes read, without zeros, which are not sent
	Received int64 `json:"received"`      // bytes of objects received for them
	Peers    int64 `json:"peers"`         // bytes of Received that peers sent
	// object of the boot pack's map, "": none; the fields below are about this pack
	Pack        string `json:"pack,omitempty"`
	Hits        int64  `json:"hits"`   // bytes read that the pack had
	Misses      int64  `json:"misses"` // bytes read that it did not have
	Wasted      int64  `json:"wasted"` // bytes of its part for reads until booted that were fetched and not read
	WastedLater int64  `json:"late"`   // bytes of its part for later reads that were fetched and not read
}
