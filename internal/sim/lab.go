package sim

import (
	"time"

	"pando/internal/swarm"
)

// Lab is what `pando-lab storm --sim` writes of storms that were measured with real servers and real block daemons.
type Lab struct {
	Date   time.Time  `json:"date"`
	Storms []LabStorm `json:"storms"`
}

// LabStorm is one of them. Rates are bits a second, sizes bytes, times nanoseconds.
type LabStorm struct {
	Nodes      int           `json:"nodes"`
	NodeLink   int64         `json:"node_link"`
	ServerLink int64         `json:"server_link"`
	W          int64         `json:"w"`
	Pieces     int           `json:"pieces"`
	Unicast    bool          `json:"unicast,omitempty"`
	K          int64         `json:"k,omitempty"`      // of each node, which loads it first; 0: it has it
	Think      time.Duration `json:"think"`            // of each boot between its reads, in all
	LastK      time.Duration `json:"last_k,omitempty"` // until the last node had K
	Median     time.Duration `json:"median,omitempty"` // until half of the nodes had booted; 0: not noted
	Last       time.Duration `json:"last"`             // until the last node had booted
	Server     int64         `json:"server"`           // bytes of objects that the server sent
}

// What a boot reads beside its pack: the root of the index, and pages of it.
const (
	IndexObjects = 3
	IndexSize    = 16 << 10 // bytes of each, about
)

// Config is the same storm for the simulator: boots that read what comes, piece by piece, and think. In the lab a root
// begins when K is there.
func (l LabStorm) Config() Config {
	c := Config{
		Nodes:      l.Nodes,
		NodeLink:   l.NodeLink,
		ServerLink: l.ServerLink,
		W:          l.W,
		K:          l.K,
		Pieces:     l.Pieces,
		Unicast:    l.Unicast,
		Reads:      true,
		Think:      l.Think,
		Seed:       1,
	}
	return c.Whole()
}

// What storms of 1 to 200 real nodes, and of 1 to 40 that load K first, take in the lab, of what is simulated: at
// least and at most. The simulator leaves out what a processor does, TCP's start, and that messages wait behind
// bytes. A test compares them.
const (
	LabLeast = 0.95
	LabMost  = 1.20

	LabStart = time.Second // and at most so much more, which does not grow with the storm
)

// Whole is the same storm with what a boot has beside the pieces of its pack.
func (c Config) Whole() Config {
	c.Files, c.Demand, c.DemandSize = swarm.BootstrapSize(c.Pieces), IndexObjects, IndexSize
	return c
}
