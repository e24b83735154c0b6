package logs

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/journal"
	"pando/internal/registry"
	"pando/internal/store"
)

// Values of Config.Mode.
const (
	On   = "on"   // nodes send their journals; it is an error if systemd-journal-remote is missing
	Auto = "auto" // on if systemd-journal-remote is installed
	Off  = "off"
)

// NodePath is the path on the control port to which nodes send their journals.
const NodePath = "/v1/node/journal"

// Config is what Journals needs.
type Config struct {
	Mode     string // On, Auto, Off; "": off
	Dir      string // where the journals are kept
	Size     int64  // disk space for all journals, in bytes; 0: journal.DefaultTotal
	NodeSize int64  // disk space for one node's journals, in bytes; 0: journal.DefaultNode

	Registry *registry.Registry
	Store    *store.Dir
	Keys     identity.Keys
	Member   func(context.Context, fleet.MAC) (fleet.Node, error) // the adopted node with a MAC
	Port     func() uint16                                        // the control port
	Log      *slog.Logger
}

// Journals are the systemd journals that nodes send.
type Journals struct {
	dir         *journal.Dir // nil: none are kept
	missing     bool         // journals are not kept because systemd-journal-remote is missing
	registry    *registry.Registry
	store       *store.Dir
	keys        identity.Keys
	member      func(context.Context, fleet.MAC) (fleet.Node, error)
	controlPort func() uint16
	log         *slog.Logger

	mu      sync.Mutex
	watched map[string]int   // number of followers, by node
	uploads map[string]int64 // number of uploads, by outcome
}

// Open opens the journals that are kept.
func Open(c Config) (*Journals, error) {
	j := &Journals{
		registry:    c.Registry,
		store:       c.Store,
		keys:        c.Keys,
		member:      c.Member,
		controlPort: c.Port,
		log:         c.Log,
		watched:     map[string]int{},
		uploads:     noUploads(),
	}
	switch c.Mode {
	case "", Off:
		return j, nil
	case Auto:
		if _, err := journal.Find(); err != nil {
			c.Log.Info("journals of nodes are not kept: "+err.Error(),
				"hint", "install it, or start the server with --logs off")
			j.missing = true
			return j, nil
		}
	case On:
	default:
		return nil, errors.New("logs: use on, off or auto")
	}
	var err error
	j.dir, err = journal.Open(journal.Options{Path: c.Dir, Total: c.Size, Node: c.NodeSize, Log: c.Log})
	return j, err
}

// Kept reports whether journals are kept.
func (j *Journals) Kept() bool { return j.dir != nil }

// Dir returns the directory of the journals, nil if they are not kept.
func (j *Journals) Dir() *journal.Dir { return j.dir }

// Rename gives the journals of a node the node's new name.
func (j *Journals) Rename(was, is string) error {
	if j.dir == nil {
		return nil
	}
	return j.dir.Rename(was, is)
}
