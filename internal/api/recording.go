package api

import (
	"context"
	"net/url"
	"time"

	"pando/internal/fleet"
)

// Recording is a boot that records its reads until a mark, and not only until booted. It is requested or finished.
type Recording struct {
	Node  string    `json:"node"`
	Until string    `json:"until"`          // name of the mark, as `pando-init mark` makes it
	Asked time.Time `json:"asked,omitzero"` // the node's next boot records; zero: this one was recorded

	Boot     fleet.BootID `json:"boot,omitempty"` // the rest is of what was recorded
	Version  fleet.Digest `json:"version,omitempty"`
	Received time.Time    `json:"received,omitzero"`
	Reached  bool         `json:"reached,omitempty"` // the mark was made; false: the time for it was over
	Reads    int          `json:"reads,omitempty"`   // requests
	Read     int64        `json:"read,omitempty"`    // bytes, each block once
}

// RecordingList answers GET /v1/recordings: requested recordings, and then finished ones, newest first.
type RecordingList struct {
	Recordings []Recording `json:"recordings"`
}

// RecordingSet asks a node to record its next boot. PUT /v1/nodes/{name}/recording.
type RecordingSet struct {
	Until string `json:"until"` // name of the mark; "": no longer asked
}

// Recordings lists the boots that record, or recorded, until a mark.
func (c *Client) Recordings(ctx context.Context) ([]Recording, error) {
	l, err := get[RecordingList](ctx, c, "/v1/recordings", nil)
	return l.Recordings, err
}

// SetRecording has the next boot of a node record until a mark, or no longer.
func (c *Client) SetRecording(ctx context.Context, node string, s RecordingSet) (Recording, error) {
	return ask[Recording](ctx, c, "PUT", "/v1/nodes/"+url.PathEscape(node)+"/recording", s)
}
