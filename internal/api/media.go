package api

import (
	"context"
	"io"

	"pando/internal/fleet"
)

// MediumCreate requests the content of a boot medium, a disk or stick. POST /v1/media
type MediumCreate struct {
	Select  string   `json:"select"`            // node set; a set that is one group may have no nodes yet
	Size    int64    `json:"size"`              // bytes of the disk or stick
	Control []string `json:"control,omitempty"` // base URLs of the control port (8443); none: this server's addresses
}

// CreateMedium returns the writes of a medium as a stream, see package media. The caller closes it.
func (c *Client) CreateMedium(ctx context.Context, m MediumCreate) (io.ReadCloser, error) {
	res, err := c.send(ctx, "POST", "/v1/media", nil, m)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// NodeMedium requests an update of the boot medium of a running node. POST /v1/node/medium, with the session as bearer.
// The reply is a stream of writes, or 204 if the medium is up to date.
type NodeMedium struct {
	Boot  fleet.BootID `json:"boot"`
	Slots []MediumSlot `json:"slots,omitempty"` // the present content of the slots
	Size  int64        `json:"size,omitempty"`  // bytes of a disk that becomes a medium; 0: it is a medium already
}

// MediumSlot describes the content of a slot for kernel+initrd.
type MediumSlot struct {
	Sequence uint64 `json:"sequence"`
	Digest   string `json:"digest"`
}
