package api

import (
	"context"
	"time"

	"pando/internal/fleet"
)

// Sample is what one server sent in an interval.
type Sample struct {
	Server  string        `json:"server"`
	At      time.Time     `json:"at"`      // begin of the interval
	Width   time.Duration `json:"width"`   // length of the interval: a second, or more for old samples
	Sent    int64         `json:"sent"`    // bytes to nodes
	Read    int64         `json:"read"`    // bytes read from the server's disks
	Written int64         `json:"written"` // bytes written to the server's disks
}

// Samples answers GET /v1/history/samples, oldest first. There are samples only of times in which nodes were sent
// something.
type Samples struct {
	Samples []Sample `json:"samples"`
}

// Feeding says which peers and servers sent a boot its root, as its node counted until the boot was over.
type Feeding struct {
	Boot  fleet.BootID `json:"boot"`
	Node  string       `json:"node"`
	Place string       `json:"place,omitempty"` // its rack, switch or room, or else its group
	From  []Sender     `json:"from"`            // the largest sender first
}

// Sender is a peer or server that sent bytes of a boot's root. Without a name it stands for several peers.
type Sender struct {
	Node  string `json:"node,omitempty"`  // a peer
	Other string `json:"other,omitempty"` // a server or bucket as host and port, or a peer that is no node of this site
	Bytes int64  `json:"bytes"`
}

// Feedings answers GET /v1/history/senders, in the order in which the boots started.
type Feedings struct {
	Boots []Feeding `json:"boots"`
}

// HistorySamples returns what servers sent between two times.
func (c *Client) HistorySamples(ctx context.Context, since, until time.Time) ([]Sample, error) {
	s, err := get[Samples](ctx, c, "/v1/history/samples", HistoryQuery{Since: since, Until: until}.values())
	return s.Samples, err
}

// HistorySenders returns the senders of boots that started between two times, for at most 10,000 boots.
func (c *Client) HistorySenders(ctx context.Context, since, until time.Time) ([]Feeding, error) {
	f, err := get[Feedings](ctx, c, "/v1/history/senders", HistoryQuery{Since: since, Until: until}.values())
	return f.Boots, err
}
