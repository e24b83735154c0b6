package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/ratelimit"
	"pando/internal/registry"
)

// Bounds of what unknown machines can make the server store. Anybody can forge a packet; a request for a script at
// least needs an address that answers. A thousand new machines pass at once.
const (
	maxDiscovered   = 2048             // discovered nodes; beyond it the one that was seen longest ago is removed
	keepDiscovered  = 10 * time.Minute // a discovered node that was seen within this time is not removed
	maxAutoAdopted  = 20000            // nodes; beyond it only an operator adopts
	discoverBurst   = 1024
	discoverRate    = 5 // per second
	adoptBurst      = 2048
	adoptRate       = 10
	DiscoveredName  = "mac-" // + 12 hex digits: the name of a node until it gets one
	seenGranularity = 5 * time.Minute
)

// Registry is where nodes are recorded.
type Registry interface {
	View(context.Context, func(*registry.Tx) error) error
	Update(context.Context, func(*registry.Tx) error) error
}

// Machines records unknown machines, and adopts those that the site's policy accepts.
type Machines struct {
	registry Registry
	mayRun   mayRun
	now      func() time.Time
	log      *slog.Logger

	byPacket  *ratelimit.Bucket // limits records for DHCP packets, which anybody can forge
	adoptions *ratelimit.Bucket // limits records for requests, which need an address that answers
}

// mayRun reports whether the machine with this MAC may be running: it reported within a time before now, or the server
// started less than that time ago.
type mayRun func(mac fleet.MAC, now time.Time, within time.Duration) bool

// New returns the Machines of a registry.
func New(reg Registry, runs mayRun, now func() time.Time, log *slog.Logger) *Machines {
	return &Machines{registry: reg, mayRun: runs, now: now, log: log,
		byPacket:  ratelimit.New(discoverBurst, discoverRate),
		adoptions: ratelimit.New(adoptBurst, adoptRate)}
}

// LimitPackets replaces the limit on records for DHCP packets.
func (d *Machines) LimitPackets(limit *ratelimit.Bucket) { d.byPacket = limit }

// FromRequest records the machine that sent a request.
func (d *Machines) FromRequest(ctx context.Context, mac fleet.MAC, uuid string) (fleet.Node, error) {
	return d.Discover(ctx, mac, uuid, d.adoptions)
}

// Node returns the node that has a MAC, or ErrNotFound.
func (d *Machines) Node(ctx context.Context, mac fleet.MAC) (fleet.Node, error) {
	var n fleet.Node
	err := d.registry.View(ctx, func(tx *registry.Tx) (err error) {
		n, err = tx.NodeByMAC(mac)
		return err
	})
	return n, err
}

// ErrTooMany means that no more unknown machines can be recorded for now.
var ErrTooMany = errors.New("too many unknown machines at once")

// Discover records a MAC that no node has as a discovered node, if limit allows it.
func (d *Machines) Discover(ctx context.Context, mac fleet.MAC, uuid string, limit *ratelimit.Bucket) (fleet.Node,
	error) {
	if !limit.Take(d.now()) {
		return fleet.Node{}, ErrTooMany
	}
	var n fleet.Node
	err := d.registry.Update(ctx, func(tx *registry.Tx) (err error) {
		n, err = d.record(tx, mac, uuid)
		return err
	})
	if err == nil {
		d.log.Info("machine discovered", "mac", mac, "node", n.Name)
	}
	return n, err
}

// record puts a discovered node with a MAC into the registry, unless a node has the MAC by now.
func (d *Machines) record(tx *registry.Tx, mac fleet.MAC, uuid string) (fleet.Node, error) {
	now := d.now()
	if known, err := tx.NodeByMAC(mac); !errors.Is(err, registry.ErrNotFound) {
		return known, err
	}
	count, oldest, err := tx.Discovered()
	if err != nil {
		return fleet.Node{}, err
	}
	if count >= maxDiscovered {
		if now.Sub(oldest.Seen) < keepDiscovered {
			return fleet.Node{}, ErrTooMany
		}
		if err := tx.DeleteNode(oldest.Name); err != nil {
			return fleet.Node{}, err
		}
	}
	n := fleet.Node{Name: DiscoveredName + strings.ReplaceAll(mac.String(), ":", ""), MACs: []fleet.MAC{mac},
		State: fleet.Discovered, Group: fleet.DefaultGroup, UUID: uuid, Created: now, Seen: now}
	return n, tx.CreateNode(n)
}

// ForPacket returns the write that a DHCP packet of a machine needs, nil if none; the write returns the node. n is the
// node that has the MAC, the zero Node if there is none. It returns ErrTooMany if there is none and no more can be
// recorded now.
func (d *Machines) ForPacket(n fleet.Node, mac fleet.MAC, uuid string) (func(*registry.Tx) (fleet.Node, error), error) {
	if n.Name != "" {
		if !d.due(n, uuid, "") {
			return nil, nil
		}
		return func(tx *registry.Tx) (fleet.Node, error) { return n, d.touch(tx, n.Name, uuid, "") }, nil
	}
	if !d.byPacket.Take(d.now()) {
		return nil, ErrTooMany
	}
	return func(tx *registry.Tx) (fleet.Node, error) {
		n, err := d.record(tx, mac, uuid)
		if err == nil {
			d.log.Info("machine discovered", "mac", mac, "node", n.Name)
		}
		return n, err
	}, nil
}

// nextName returns the first free name of a naming rule.
func nextName(tx *registry.Tx, rule string) (string, error) {
	naming, err := fleet.ParseNaming(rule)
	if err != nil {
		return "", err
	}
	taken, err := tx.NodeNames()
	if err != nil {
		return "", err
	}
	if len(taken) >= maxAutoAdopted {
		return "", api.NewError(
			api.Conflict,
			fmt.Sprintf("the site has %d nodes; no more are adopted by themselves", len(taken)),
			"adopt this one with `pando node adopt`",
		)
	}
	return naming.Next(func(name string) bool { return taken[name] })
}

// due reports whether it is worth a write that a node was seen now, with this UUID and serial number.
func (d *Machines) due(n fleet.Node, uuid, serial string) bool {
	same := (uuid == "" || uuid == n.UUID) && (serial == "" || serial == n.SerialSeen)
	return !same || d.now().Sub(n.Seen) >= seenGranularity
}

// touch writes that a node was seen now, and what its firmware reports. It changes nothing that was declared. A node
// that no longer exists is no error.
func (d *Machines) touch(tx *registry.Tx, name, uuid, serial string) error {
	n, err := tx.Node(name)
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	n.Seen = d.now()
	if uuid != "" {
		n.UUID = uuid
	}
	if serial != "" {
		n.SerialSeen = serial
	}
	return tx.PutNode(n.Name, n)
}

// Touch records, from time to time, that a node was seen, and what its firmware reports.
func (d *Machines) Touch(ctx context.Context, n fleet.Node, uuid, serial string) {
	serial = plain(serial)
	if !d.due(n, uuid, serial) {
		return
	}
	err := d.registry.Update(ctx, func(tx *registry.Tx) error { return d.touch(tx, n.Name, uuid, serial) })
	if err != nil && !errors.Is(err, registry.ErrFull) { // a full registry is logged once, not for each node
		d.log.Error("node cannot be updated", "node", n.Name, "err", err)
	}
}
