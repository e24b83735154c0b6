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
	// bytes of root objects that needed no transfer, by source
	Served    map[string]int64 `json:"served"`
	Failures  int64            `json:"failures"`            // transfers that failed or brought wrong bytes
	Rejected  int64            `json:"rejected"`            // answers with wrong bytes
	Messages  int64            `json:"messages"`            // to the tracker
	Control   int64            `json:"control"`             // bytes of these and their answers, without HTTP headers
	Usual     float64          `json:"usual,omitempty"`     // usual duration of a transfer from a peer; 0: unknown
	Incidents map[string]int   `json:"incidents,omitempty"` // reported incidents, by kind
	Hits      int64            `json:"hits,omitempty"`      // bytes read until booted that were in the boot pack
	Misses    int64            `json:"misses,omitempty"`    // bytes read that were not in it
	Wasted    int64            `json:"wasted,omitempty"`    // of its part until booted, bytes fetched and not read
	CPU       float64          `json:"cpu"`                 // seconds of the node's processes
	Memory    int64            `json:"memory"`              // largest resident memory of these, in bytes

	Fed map[string]int64 `json:"-"` // bytes by sender: a peer's address or a server's URL
}
