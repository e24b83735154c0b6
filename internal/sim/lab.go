package sim

import (
	"time"

	"pando/internal/swarm"
)

// Lab is the file that `pando-lab storm --sim` writes: storms measured with real servers and real block daemons.
type Lab struct {
	Date   time.Time  `json:"date"`
	Storms []LabStorm `json:"storms"`
}

// LabStorm is one measured storm. Rates are in bits per second, sizes in bytes, times in nanoseconds.
type LabStorm struct {
	Nodes      int           `json:"nodes"`
	NodeLink   int64         `json:"node_link"`
	ServerLink int64         `json:"server_link"`
	W          int64         `json:"w"`
	Pieces     int           `json:"pieces"`
	Unicast    bool          `json:"unicast,omitempty"`
	K          int64         `json:"k,omitempty"`      // bytes that each node loads first; 0: the node has K
	Passed     bool          `json:"passed,omitempty"` // nodes send K on
	Think      time.Duration `json:"think"`            // computing time of a boot between its reads, in total
	LastK      time.Duration `json:"last_k,omitempty"` // until the last node had K
	Median     time.Duration `json:"median,omitempty"` // until half of the nodes had booted; 0: not measured
	Last       time.Duration `json:"last"`             // until the last node had booted
	Server     int64         `json:"server"`           // bytes of objects that the server sent
}

// What a boot reads beside its pack: the root of the index, and some index pages.
const (
	IndexObjects = 3
	IndexSize    = 16 << 10 // about the bytes of each
)

// Config returns the same storm for the simulator: boots that read piece by piece and compute in between. A boot begins
// when its node has K.
func (l LabStorm) Config() Config {
	c := Config{
		Nodes:      l.Nodes,
		NodeLink:   l.NodeLink,
		ServerLink: l.ServerLink,
		W:          l.W,
		K:          l.K,
		Pieces:     l.Pieces,
		Unicast:    l.Unicast,
		Passed:     l.Passed,
		Reads:      true,
		Think:      l.Think,
		Seed:       1,
	}
	return c.Whole()
}

// A measured storm takes between LabLeast and LabMost of the simulated time, for 1 to 200 nodes, or 1 to 40 that load K
// first. The simulator leaves out processor time, TCP's start, and messages that wait behind data. A test compares
// them.
const (
	LabLeast = 0.95
	LabMost  = 1.20

	LabStart = time.Second // plus at most this time, which does not grow with the storm
)

// Whole returns the same storm with bootstrap files and demand objects.
func (c Config) Whole() Config {
	c.Files, c.Demand, c.DemandSize = swarm.BootstrapSize(c.Pieces), IndexObjects, IndexSize
	return c
}
