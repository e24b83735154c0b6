package fleet

import (
	"strings"
	"time"
)

// StateRecord is what the server knows of a node's state. It outlives the node's deletion.
type StateRecord struct {
	Node    string       `json:"node"`             // or NODE.deleted-TIME
	Dir     string       `json:"dir,omitempty"`    // name of its directory where several nodes have theirs
	Deleted time.Time    `json:"deleted,omitzero"` // when the node was
	Places  []StatePlace `json:"places,omitempty"` // where it keeps something, or did
	Orders  []StateOrder `json:"orders,omitempty"` // what is to be done at its next boot
	Last    *StateResult `json:"last,omitempty"`   // the order that ended last
}

// StatePlace is what a node reported to keep in one place.
type StatePlace struct {
	Place string     `json:"place"` // the same for all nodes that find each other's state there
	On    string     `json:"on"`    // as the setting has it
	Paths []KeptPath `json:"paths,omitempty"`
	Told  time.Time  `json:"told"`
	Boot  BootID     `json:"boot,omitempty"` // by which
}

// Shared reports whether the place has a directory for each node. A disk and a volume belong to one node.
func (p StatePlace) Shared() bool {
	return p.Place != string(StateDisk) && p.Place != string(StateVolume)
}

// KeptPath is a directory or file that is kept.
type KeptPath struct {
	Path  string    `json:"path"`
	Since time.Time `json:"since,omitzero"` // zero: since before that was written down
	Bytes int64     `json:"bytes"`          // on the disk; -1: not measured yet
}

// StateOrderKind is what an order does to a state.
type StateOrderKind string

// The kinds of orders.
const (
	ResetState StateOrderKind = "reset" // begin anew with what the image has
	CopyState  StateOrderKind = "copy"  // become what another node has
	// of a node that was deleted, by any node that keeps its own in the same place
	RemoveState StateOrderKind = "remove"
	SendState   StateOrderKind = "send" // give it to the server, for a node that gets at it in no other way
)

// StateOrder is an order that a node's next boot carries out once on its state, before anything starts.
type StateOrder struct {
	ID   string         `json:"id"`
	Kind StateOrderKind `json:"kind"`
	// where; a node that by then keeps its state in another place does nothing
	Place   string    `json:"place"`
	Paths   []string  `json:"paths,omitempty"`    // of a reset; none: everything
	From    string    `json:"from,omitempty"`     // node of a copy
	FromDir string    `json:"from_dir,omitempty"` // its directory
	Force   bool      `json:"force,omitempty"`    // copy while that node is on
	Asked   time.Time `json:"asked"`
	Who     string    `json:"who,omitempty"`

	To string `json:"to,omitempty"` // of a send: the node that it is for, whose copy has the same ID
	// of a copy: the other node sends its state to the server, and this node fetches it there
	Through bool      `json:"through,omitempty"`
	Sent    time.Time `json:"sent,omitzero"`    // of such a copy: when the server had it; zero: not yet
	Bytes   int64     `json:"bytes,omitempty"`  // and how much the server has
	Digest  string    `json:"digest,omitempty"` // and its SHA-256
}

// StateResult is the result of an order.
type StateResult struct {
	StateOrder
	At    time.Time `json:"at"`
	Error string    `json:"error,omitempty"` // why it was not done
}

// StateReport is the file below the run directory in which a node's script lists what it keeps, for the report to the
// server.
const StateReport = "state-report"

// StateSender is the template of units that send a node's state to the server; an order's id is behind its '@'.
const StateSender = "pando-state-send"

// String is the order in words.
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

// Waits reports whether the order is a copy that another node has to send first.
func (o StateOrder) Waits() bool { return o.Through && o.Sent.IsZero() }

// In returns what is known of one place, or nil.
func (r *StateRecord) In(place string) *StatePlace {
	for i := range r.Places {
		if r.Places[i].Place == place {
			return &r.Places[i]
		}
	}
	return nil
}

// Shared reports whether nodes that keep their state this way have a directory each in one place.
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
