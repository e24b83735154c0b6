package fleet

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// NodeState reports whether an operator, or the adoption policy, has accepted a node.
type NodeState string

// The two states of a node.
const (
	Discovered NodeState = "discovered" // its MAC was seen; it is told to wait
	Adopted    NodeState = "adopted"    // it boots the image of its group
)

// Node is one managed machine. Name is its key; MACs is how it is recognised on the wire.
type Node struct {
	Name       string            `json:"name"`
	MACs       []MAC             `json:"macs"`
	State      NodeState         `json:"state"`
	Group      string            `json:"group"`
	Labels     map[string]string `json:"labels,omitempty"`
	Address    netip.Addr        `json:"address,omitzero"`      // fixed address; zero: from the pool
	Version    Ref               `json:"version,omitempty"`     // overrides the group's image; "": no override
	Follow     bool              `json:"follow,omitempty"`      // Version is a tag; a boot gets what it names then
	KernelArgs []string          `json:"kernel_args,omitempty"` // appended after the group's
	Serial     string            `json:"serial,omitempty"`      // as an operator declared it
	// what its firmware reports; it never overwrites a declared value
	UUID       string `json:"uuid,omitempty"` // SMBIOS system UUID
	SerialSeen string `json:"serial_seen,omitempty"`
	// the MACs that no operator declared: the server saw the machine use them
	Learned []MAC `json:"learned_macs,omitempty"`
	// the learned MACs whose machine became the node by reporting the declared serial number, which proves nothing
	Claimed []MAC `json:"claimed_macs,omitempty"`
	// public key of the machine's TPM, approved by an operator; "": none
	TPMKey  string    `json:"tpm_key,omitempty"`
	Created time.Time `json:"created"`
	Seen    time.Time `json:"seen,omitzero"` // last packet or report

	Settings // its own settings, which override its group's
}

// SerialNumber returns the declared serial number or, without one, the number that the firmware reports.
func (n Node) SerialNumber() string { return cmp.Or(n.Serial, n.SerialSeen) }

// OnlyLearned reports whether no operator declared a MAC of the node.
func (n Node) OnlyLearned() bool {
	return !slices.ContainsFunc(n.MACs, func(m MAC) bool { return !slices.Contains(n.Learned, m) })
}

// DefaultGroup is the group that exists from the first start and that newly adopted nodes join.
const DefaultGroup = "default"

// Group is a set of nodes that should run the same image.
type Group struct {
	Name       string   `json:"name"`
	Image      Ref      `json:"image,omitempty"`  // what its nodes should run: "name@sha256:...", or a tag
	Follow     bool     `json:"follow,omitempty"` // Image is a tag; a boot gets what it names then
	KernelArgs []string `json:"kernel_args,omitempty"`

	Settings
}

// CachePolicy says where a node keeps objects that it may need again.
type CachePolicy string

// The cache policies.
const (
	CacheNone CachePolicy = "none" // only what a boot needs
	CacheRAM  CachePolicy = "ram"  // in memory, until the node is switched off
	CacheDisk CachePolicy = "disk" // on a disk that was prepared for it; outlives reboots
)

// Effective returns p, or the default if it is empty.
func (p CachePolicy) Effective() CachePolicy {
	if p == "" {
		return CacheNone
	}
	return p
}

// Defaults of a cache's size, in bytes.
const (
	DefaultCacheRAM  int64 = 64e6
	DefaultCacheDisk int64 = 8e9
)

// CacheOf returns the cache of nodes with these settings, nil for none.
func (s Settings) CacheOf() *Cache {
	c := &Cache{Kind: ValueOf(s.Cache).Effective(), Size: ValueOf(s.CacheSize)}
	switch {
	case c.Kind == CacheNone:
		return nil
	case c.Size == 0 && c.Kind == CacheRAM:
		c.Size = DefaultCacheRAM
	case c.Size == 0:
		c.Size = DefaultCacheDisk
	}
	return c
}

// PeerPolicy says with which other nodes a node shares the objects that it has.
type PeerPolicy string

// The peer policies.
const (
	PeersOn   PeerPolicy = "on"   // all nodes that boot the same version, near ones first
	PeersOff  PeerPolicy = "off"  // everything comes from servers
	PeersRack PeerPolicy = "rack" // nodes of the same place only or, where none is declared, of the same subnet
)

// Effective returns p, or the default if it is empty.
func (p PeerPolicy) Effective() PeerPolicy {
	if p == "" {
		return PeersOn
	}
	return p
}

// KernelSource says who sends kernel and initramfs to nodes.
type KernelSource string

// The kernel sources.
const (
	// FromNeighbours is nodes that have booted with the same kernel and initramfs, then servers. The boot loader must
	// verify digests; others load from servers.
	FromNeighbours KernelSource = "neighbours"
	FromServers    KernelSource = "servers"
)

// Effective returns k, or the default if it is empty.
func (k KernelSource) Effective() KernelSource {
	if k == "" {
		return FromNeighbours
	}
	return k
}

// Labels that give a node's place. The first one that the node has counts.
const (
	LabelRack   = "rack"
	LabelSwitch = "switch"
)

// Place returns the rack or switch that an operator declared for the node, or "".
func (n Node) Place() string {
	if p := n.Labels[LabelRack]; p != "" {
		return p
	}
	return n.Labels[LabelSwitch]
}

// Lease is a DHCP address given to a MAC.
type Lease struct {
	Addr    netip.Addr `json:"addr"`
	MAC     MAC        `json:"mac"`
	Host    string     `json:"host,omitempty"`
	Static  bool       `json:"static,omitempty"`
	Expires time.Time  `json:"expires"`
	Bad     bool       `json:"bad,omitempty"`   // another machine has the address: not offered until Expires
	Known   bool       `json:"known,omitempty"` // the node has registered once, or an operator declared it
}

// AdoptionPolicy says what happens to a machine whose MAC belongs to no node.
type AdoptionPolicy string

// The adoption policies.
const (
	Open    AdoptionPolicy = "open"    // adopt at once, named by the naming rule
	Approve AdoptionPolicy = "approve" // keep as discovered until an operator adopts it
)
