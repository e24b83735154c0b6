package fleet

import (
	"strings"
	"time"
)

// StateRecord is what the server knows about a node's state. It outlives the deletion of the node.
type StateRecord struct {
	Node    string       `json:"node"`             // or NODE.deleted-TIME
	Dir     string       `json:"dir,omitempty"`    // name of the node's directory in a shared place
	Deleted time.Time    `json:"deleted,omitzero"` // when the node was deleted; zero: it was not
	Places  []StatePlace `json:"places,omitempty"` // where the node keeps state, or kept it before
	Orders  []StateOrder `json:"orders,omitempty"` // what its next boot should do
	Last    *StateResult `json:"last,omitempty"`   // the order that ended last
}

// StatePlace is the state that a node reported to keep in one place.
type StatePlace struct {
	Place string     `json:"place"` // identifies the storage; equal for nodes that share it
	On    string     `json:"on"`    // the setting that led to it
	Paths []KeptPath `json:"paths,omitempty"`
	Told  time.Time  `json:"told"`
	Boot  BootID     `json:"boot,omitempty"` // the boot that reported it
}

// Shared reports whether the place has a directory for each node. A disk or a volume belongs to one node.
func (p StatePlace) Shared() bool {
	return p.Place != string(StateDisk) && p.Place != string(StateVolume)
}

// KeptPath is a directory or file that is kept.
type KeptPath struct {
	Path  string    `json:"path"`
	Since time.Time `json:"since,omitzero"` // zero: since before the server recorded this
	Bytes int64     `json:"bytes"`          // on the storage; -1: not measured yet
}

// StateOrderKind is what an order does to a state.
type StateOrderKind string

// The kinds of orders.
const (
	ResetState StateOrderKind = "reset" // start again with the content of the image
	CopyState  StateOrderKind = "copy"  // take over the state of another node
	// remove the state of a deleted node; done by any node that keeps its own state in the same place
	RemoveState StateOrderKind = "remove"
	SendState   StateOrderKind = "send" // send the state to the server, for a node that cannot reach it otherwise
)

// StateOrder is an order for a node's state. The node's next boot carries it out once, before services start.
type StateOrder struct {
	ID   string         `json:"id"`
	Kind StateOrderKind `json:"kind"`
	// the place that is meant; a node that has since moved its state elsewhere ignores the order
	Place   string    `json:"place"`
	Paths   []string  `json:"paths,omitempty"`    // for a reset; none: everything
	From    string    `json:"from,omitempty"`     // for a copy: the other node
	FromDir string    `json:"from_dir,omitempty"` // for a copy: the other node's directory
	Force   bool      `json:"force,omitempty"`    // copy even if the other node is on
	Asked   time.Time `json:"asked"`
	Who     string    `json:"who,omitempty"`

	To string `json:"to,omitempty"` // for a send: the node that gets the state; its copy order has the same ID
	// for a copy: the other node sends its state to the server, and this node fetches it there
	Through bool      `json:"through,omitempty"`
	Sent    time.Time `json:"sent,omitzero"`    // for such a copy: when the server had received it; zero: not yet
	Bytes   int64     `json:"bytes,omitempty"`  // for such a copy: bytes that the server has
	Digest  string    `json:"digest,omitempty"` // for such a copy: SHA-256 of what the server has
}

// StateResult is the result of an order.
type StateResult struct {
	StateOrder
	At    time.Time `json:"at"`
	Error string    `json:"error,omitempty"` // why it failed
}

// StateReport is the file below the run directory in which a node's script lists what it keeps. The agent reports it to
// the server.
const StateReport = "state-report"

// String describes the order.
func (o StateOrder) String() string {
	switch {
	case o.Kind == CopyState:
		return "copy of " + o.From
	case o.Kind == SendState:
		return "sending to " + o.To
	case len(o.Paths) > 0:
		return string(o.Kind) + " of " + strings.Join(o.Paths, " ")
	}
	return string(o.Kind)
}

// Waits reports whether the order is a copy for which the other node has yet to send its state.
func (o StateOrder) Waits() bool { return o.Through && o.Sent.IsZero() }

// In returns the record of one place, or nil.
func (r *StateRecord) In(place string) *StatePlace {
	for i := range r.Places {
		if r.Places[i].Place == place {
			return &r.Places[i]
		}
	}
	return nil
}

// Shared reports whether all nodes with this setting have directories in one place.
func (s State) Shared() bool { return s.Kind == StateNetwork || s.Kind == StateDirectory }

// Done describes the result of an order.
func (r StateResult) Done() string {
	switch {
	case r.Error != "":
		return "not done, the " + r.String() + " of node state: " + r.Error
	case r.Kind == CopyState:
		return "the node's state was made a copy of that of " + r.From
	case r.Kind == SendState:
		return "the node's state was sent to the server, for " + r.To
	case r.Kind == RemoveState:
		return "the state of " + r.From + " was removed"
	case len(r.Paths) > 0:
		return strings.Join(r.Paths, " ") + " of the node's state: reset"
	}
	return "the node's state was reset"
}
