package api

import "pando/internal/fleet"

// VolumeRequest asks for the way to the node's volume. POST /v1/node/volume, with the session as bearer.
type VolumeRequest struct {
	Boot fleet.BootID `json:"boot"`
}

// VolumeTicket is the way: an HTTP request of Path at Address, upgraded to nbd, with the ticket, which works once and soon.
type VolumeTicket struct {
	Address string `json:"address"` // of the data path, "10.0.0.1:8480"
	Path    string `json:"path"`
	Ticket  string `json:"ticket"`
	Export  string `json:"export"`
}
