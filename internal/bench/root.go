package bench

import (
	"context"
	"io"
)

// Root is an attached root.
type Root interface {
	io.ReaderAt
	// Usage returns what the node used so far.
	Usage(ctx context.Context) (Usage, error)
	Close()
}

// Usage is what a node used for its boot.
type Usage struct {
	Received map[string]int64 `json:"received"` // bytes of root objects, by source
	// bytes of answers without a transfer of their own, by source
	Served    map[string]int64 `json:"served"`
	Failures  int64            `json:"failures"`            // transfers that failed, or brought wrong bytes
	Rejected  int64            `json:"rejected"`            // answers that were not the object
	Messages  int64            `json:"messages"`            // to the tracker
	Control   int64            `json:"control"`             // bytes of those and their answers, without HTTP's headers
	Usual     float64          `json:"usual,omitempty"`     // that a transfer from a peer took in the end; 0: not known
	Incidents map[string]int   `json:"incidents,omitempty"` // what it told, by kind
	Hits      int64            `json:"hits,omitempty"`      // bytes read that the boot pack had, when it had booted
	Misses    int64            `json:"misses,omitempty"`    // bytes read that it did not have
	Wasted    int64            `json:"wasted,omitempty"`    // bytes of it until booted that were fetched and not read
	CPU       float64          `json:"cpu"`                 // seconds of the node's processes
	Memory    int64            `json:"memory"`              // most bytes resident of them

	Fed map[string]int64 `json:"-"` // bytes by who sent them, a peer's address or a server's URL
}
