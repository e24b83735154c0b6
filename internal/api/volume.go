package api

import (
	"context"
	"net/url"
	"time"

	"pando/internal/fleet"
)

// VolumeRequest requests a ticket for the node's volume or swap space. POST /v1/node/volume, with the session as
// bearer. The reply is NotFound if the server has lost, or cannot trust, the node's swap space.
type VolumeRequest struct {
	Boot fleet.BootID `json:"boot"`
	Swap bool         `json:"swap,omitempty"` // the swap space
	Used bool         `json:"used,omitempty"` // the node has used it in this boot: the content must be intact
}

// VolumeTicket lets a node connect to its volume: the node sends an HTTP request for Path to Address, upgraded to nbd,
// with the ticket. A ticket is valid once and for a short time.
type VolumeTicket struct {
	Address string `json:"address"` // host and port of the image port, "10.0.0.1:8480"
	Path    string `json:"path"`
	Ticket  string `json:"ticket"`
	Export  string `json:"export"`
}

// StateFetch requests the state that another node sent, for an order of the requesting node. POST /v1/node/state/fetch,
// with the session as bearer. The reply is a tar archive. The other node sent it by POST
// /v1/node/state/send?boot=...&order=..., with the archive as body.
type StateFetch struct {
	Boot  fleet.BootID `json:"boot"`
	Order string       `json:"order"`
}

// StateList answers GET /v1/state.
type StateList struct {
	Nodes []StateOf `json:"nodes"`
}

// StateOf is the state of a node. A volume without a node belonged to a deleted node.
type StateOf struct {
	Node    string       `json:"node"`
	Kept    string       `json:"kept,omitempty"`  // the setting; "": nothing is kept
	Place   string       `json:"place,omitempty"` // the place that the setting names; in Places after a boot with it
	Persist []string     `json:"persist,omitempty"`
	Volume  *VolumeState `json:"volume,omitempty"` // nil: it has none

	Dir     string             `json:"dir,omitempty"`    // name of the node's directory in a shared place
	Deleted time.Time          `json:"deleted,omitzero"` // when the node was deleted; zero: it was not
	Places  []fleet.StatePlace `json:"places,omitempty"` // where the node reported to keep state, or to have kept it
	Orders  []fleet.StateOrder `json:"orders,omitempty"` // what its next boot does
	Last    *fleet.StateResult `json:"last,omitempty"`   // the order that ended last
	On      bool               `json:"on,omitempty"`     // the node runs; only in requests for one node
}

// VolumeState is a volume as the server has it.
type VolumeState struct {
	Size      int64      `json:"size"` // bytes, as the node sees it
	Used      int64      `json:"used"` // bytes on the server
	Attached  bool       `json:"attached"`
	Changed   time.Time  `json:"changed"`
	Snapshots []Snapshot `json:"snapshots,omitempty"`
}

// Snapshot is an earlier content of a volume.
type Snapshot struct {
	Name string    `json:"name"`
	Made time.Time `json:"made"`
}

// StateChange is the body of the requests that change the state of a node.
type StateChange struct {
	Snapshot string `json:"snapshot,omitempty"` // name of the snapshot that is made or restored
	From     string `json:"from,omitempty"`     // node whose state is copied

	Paths  []string `json:"paths,omitempty"`  // paths to reset; none: everything
	Force  bool     `json:"force,omitempty"`  // copy from a node even if it is on
	Forget bool     `json:"forget,omitempty"` // for the state of a deleted node: delete the record, and leave the files
}

// State lists what the selected nodes keep across boots.
func (c *Client) State(ctx context.Context, selection string) ([]StateOf, error) {
	l, err := get[StateList](ctx, c, "/v1/state", params("select", selection))
	return l.Nodes, err
}

// SnapshotState makes a snapshot of a node's volume.
func (c *Client) SnapshotState(ctx context.Context, node string, s StateChange) (StateOf, error) {
	return ask[StateOf](ctx, c, "POST", "/v1/state/"+url.PathEscape(node)+"/snapshot", s)
}

// ResetState sets a node's volume back to a snapshot, or empties it. Other kinds of state are reset by the node's next
// boot.
func (c *Client) ResetState(ctx context.Context, node string, s StateChange) (StateOf, error) {
	return ask[StateOf](ctx, c, "POST", "/v1/state/"+url.PathEscape(node)+"/reset", s)
}

// CopyState makes a node's volume a copy of another node's. Other kinds of state are copied by the next boot.
func (c *Client) CopyState(ctx context.Context, node string, s StateChange) (StateOf, error) {
	return ask[StateOf](ctx, c, "POST", "/v1/state/"+url.PathEscape(node)+"/copy", s)
}

// WithdrawState cancels the state orders of a node's next boot.
func (c *Client) WithdrawState(ctx context.Context, node string) (StateOf, error) {
	return ask[StateOf](ctx, c, "DELETE", "/v1/state/"+url.PathEscape(node)+"/orders", nil)
}
