package api

import (
	"context"
	"io"
)

// MediumCreate asks for what makes a disk or stick a boot medium. POST /v1/media
type MediumCreate struct {
	Select  string   `json:"select"`            // node set; one group by itself may have no nodes yet
	Size    int64    `json:"size"`              // bytes of the disk or stick
	Control []string `json:"control,omitempty"` // base URLs of the control channel; none: this server's addresses
}

// CreateMedium returns the writes of a medium as a stream, see the package media; close it.
func (c *Client) CreateMedium(ctx context.Context, m MediumCreate) (io.ReadCloser, error) {
	res, err := c.send(ctx, "POST", "/v1/media", nil, m)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
