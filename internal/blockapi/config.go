package blockapi

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
	"pando/internal/link"
	"pando/internal/swarm"
)

// SwarmConfig says how a daemon shares its boot pack with peers.
type SwarmConfig struct {
	Port      uint16 `json:"port,omitempty"`  // that peers ask at; 0: swarm.Port
	Place     string `json:"place,omitempty"` // rack or switch; "": not declared
	LocalOnly bool   `json:"near,omitempty"`  // peers of the same place, or if there is none of the same subnet, only

	Start []netip.AddrPort `json:"start,omitempty"` // peers that gave this node what its boot started with

	Control swarm.Control `json:"said,omitzero"` // bytes exchanged with trackers when this boot started

	// delay of the network that a tracker announced when this boot started; 0: none
	AnnounceDelay time.Duration `json:"late,omitempty"`
}

// The names that the daemons' processes go by. The '@' at the front makes systemd leave them alone when it
// switches roots and when it shuts down (systemd, "Root Storage Daemons").
const (
	SupervisorName = "@pando-super"
	DaemonName     = "@pando-block"
)

// Socket is the block daemon's unix socket in its directory. It speaks HTTP: GET /status?since=SEQ returns a Status,
// PUT /network takes a Network, POST /reads ends the recording of reads and returns a Recording, POST /booted means
// that the boot is over, POST /leave takes the node out of its swarm, POST /hold?on=1 and POST /hold begin and end to
// hold what is read, and return a Held.
const Socket = "block.sock"

// Config is the supervisor's input, as JSON: one root file system, its sources, and the network that must stay up for
// it.
type Config struct {
	Index     chunk.ID `json:"index"`            // index root of the manifest
	Size      int64    `json:"size"`             // raw bytes of the root, a multiple of 4096
	ChunkSize int      `json:"chunk_size"`       // raw bytes of the largest chunk
	Servers   []string `json:"servers"`          // base URLs of the data path, by IP address, preferred first
	Stores    []string `json:"stores,omitempty"` // base URLs of objects alone, by IP address, asked before the servers
	Pack      []byte   `json:"pack,omitempty"`   // the boot pack's map, verified; none: chunks only
	Idle      bool     `json:"idle,omitempty"`   // of the boot pack only what reads ask for, nothing ahead of them
	// bytes of the boot pack kept as they were sent; 0: as the machine's memory allows
	Keep  int64        `json:"keep,omitempty"`
	Cache int64        `json:"cache"`           // bytes of raw chunks kept; 0: the default
	Swarm *SwarmConfig `json:"swarm,omitempty"` // how the boot pack is shared with peers; nil: not at all
	// verified, for peers that boot after this node; none: they do not get it here
	Manifest  []byte       `json:"manifest,omitempty"`
	Signature []byte       `json:"signature,omitempty"` // of the manifest
	Device    int          `json:"device"`              // 0 for /dev/nbd0
	Network   link.Network `json:"network"`             // kept up by the daemon; zero Interface: left alone

	RAM     int64        `json:"ram,omitempty"`  // bytes of objects kept in memory, as they are sent; 0: none
	Disk    *CacheDisk   `json:"disk,omitempty"` // objects kept on a disk; nil: none
	Pending *PendingDisk `json:"late,omitempty"` // in the place of Disk: one that is still looked for; nil: none is
}

// Validate returns an error for an invalid field.
func (c Config) Validate() error {
	switch {
	case c.Index.IsZero():
		return fmt.Errorf("block config: no index")
	case c.Size <= 0 || c.Size%4096 != 0:
		return fmt.Errorf("block config: size %d is not a positive multiple of 4096", c.Size)
	case c.ChunkSize <= 0 || c.ChunkSize%4096 != 0:
		return fmt.Errorf("block config: chunk size %d is not a positive multiple of 4096", c.ChunkSize)
	case len(c.Pack) > bootpack.MaxSize:
		return fmt.Errorf("block config: boot pack's map of %d bytes, more than %d", len(c.Pack), bootpack.MaxSize)
	case c.Swarm != nil && len(c.Swarm.Place) > 64:
		return fmt.Errorf("block config: place %.20q... has more than 64 bytes", c.Swarm.Place)
	case len(c.Servers) == 0:
		return fmt.Errorf("block config: no servers")
	}
	for _, s := range c.Sources() {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" {
			return fmt.Errorf("block config: server %q is not an http URL", s)
		}
		// A name would have to be resolved with files of the very root that this daemon serves.
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			return fmt.Errorf("block config: server %q is not given by IP address", s)
		}
	}
	return nil
}

// Sources are the base URLs of objects, preferred first.
func (c Config) Sources() []string { return slices.Concat(c.Stores, c.Servers) }

// Status has the counters of both daemons. They are in shared memory, so they outlive a block daemon that is replaced.
type Status struct {
	// by source: "server", "bucket", "peer": received; "disk", "ram": read from the node's cache; "pack", "cache",
	// "zero": served without a fetch
	Bytes map[string]int64 `json:"bytes"`
	// bytes that this block daemon received, by a peer's address or a server's base URL
	Fed       map[string]int64 `json:"fed"`
	Reads     int64            `json:"reads"`    // requests answered to the kernel
	ReadBytes int64            `json:"read"`     // bytes answered to the kernel
	Fetches   int64            `json:"fetches"`  // objects received and verified
	Uploaded  int64            `json:"uploaded"` // bytes of objects that were sent to peers
	Messages  int64            `json:"messages"` // to trackers, by this block daemon
	Control   int64            `json:"control"`  // bytes of those and their answers, without HTTP's headers
	Usual     time.Duration    `json:"usual"`    // that a transfer from a peer takes; 0: it is not known
	Rejected  int64            `json:"rejected"` // answers that were not the object asked for
	Failures  int64            `json:"failures"` // attempts that brought no object: refused, timed out, missing
	Errors    int64            `json:"errors"`   // requests answered with an I/O error
	Stalled   time.Duration    `json:"stalled"`  // time in which some read waited more than a second
	// from the block daemon's start until all was there that boots read until booted; 0: it never was
	Complete  time.Duration `json:"complete"`
	Whole     time.Duration `json:"whole"`    // and until all of the boot pack was
	Waiting   int           `json:"waiting"`  // reads that wait at this moment
	Restarts  int64         `json:"restarts"` // times that the block daemon was replaced
	LinkFixes int64         `json:"link_fixes"`
	Server    string        `json:"server"`    // base URL that answered last, "" before the first answer
	PID       int           `json:"pid"`       // of this block daemon
	Uptime    time.Duration `json:"uptime"`    // of this block daemon
	Memory    int64         `json:"memory"`    // most bytes that this block daemon had resident
	Incidents []Incident    `json:"incidents"` // those after since, oldest first; only the newest 64 are kept
	Sequence  int64         `json:"sequence"`  // of the newest incident; the next since
}
