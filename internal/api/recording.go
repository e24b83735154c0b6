package api

import (
	"context"
	"net/url"
	"time"

	"pando/internal/fleet"
)

// Recording is a boot that records its reads until a mark, instead of until booted. It is requested or finished.
type Recording struct {
	Node  string    `json:"node"`
	Until string    `json:"until"`          // name of the mark, as in `pando-init mark`
	Asked time.Time `json:"asked,omitzero"` // when it was requested for the next boot; zero: it is finished

	Boot     fleet.BootID `json:"boot,omitempty"` // the fields from here on describe a finished recording
	Version  fleet.Digest `json:"version,omitempty"`
	Received time.Time    `json:"received,omitzero"`
	Reached  bool         `json:"reached,omitempty"` // the mark was set; false: the time limit ended the recording
	Reads    int          `json:"reads,omitempty"`   // requests
	Read     int64        `json:"read,omitempty"`    // bytes; each block counts once
}

// RecordingList answers GET /v1/recordings: requested recordings first, then finished ones, newest first.
type RecordingList struct {
	Recordings []Recording `json:"recordings"`
}

// RecordingSet makes the next boot of a node record its reads. PUT /v1/nodes/{name}/recording.
type RecordingSet struct {
	Until string `json:"until"` // name of the mark; "": cancels the recording
}

// Recordings lists the boots that record, or have recorded, until a mark.
func (c *Client) Recordings(ctx context.Context) ([]Recording, error) {
	l, err := get[RecordingList](ctx, c, "/v1/recordings", nil)
	return l.Recordings, err
}

// SetRecording makes the next boot of a node record until a mark, or cancels that.
func (c *Client) SetRecording(ctx context.Context, node string, s RecordingSet) (Recording, error) {
	return ask[Recording](ctx, c, "PUT", "/v1/nodes/"+url.PathEscape(node)+"/recording", s)
}
