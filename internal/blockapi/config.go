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
	Port      uint16 `json:"port,omitempty"`  // where peers send piece requests; 0: swarm.Port
	Place     string `json:"place,omitempty"` // rack or switch; "": not declared
	LocalOnly bool   `json:"near,omitempty"`  // only peers of the same place (of the same subnet if there is none)

	Start []netip.AddrPort `json:"start,omitempty"` // peers that sent this node its bootstrap files

	Control swarm.Control `json:"said,omitzero"` // bytes exchanged with trackers when this boot started

	// announce delay of the network when this boot started; 0: none
	AnnounceDelay time.Duration `json:"late,omitempty"`
}

// SupervisorName and DaemonName are the process names of the two daemons. Because of the '@' at the front, systemd
// does not kill them when it switches roots or shuts down (systemd, "Root Storage Daemons").
const (
	SupervisorName = "@pando-super"
	DaemonName     = "@pando-block"
)

// Socket is the block daemon's unix socket in its directory. It speaks HTTP:
//
//	GET /status?since=SEQ  returns a Status
//	PUT /network           takes a link.Network
//	POST /reads            ends the recording of reads and returns a Recording
//	POST /booted           the boot is over
//	POST /leave            takes the node out of its swarm
//	POST /hold?on=1        begins to hold the objects that are read, and returns a Held
//	POST /hold             ends that, and returns a Held
const Socket = "block.sock"

// Config is the supervisor's input, as JSON: one root file system, its sources, and the network that must stay up for
// it.
type Config struct {
	Index     chunk.ID `json:"index"`            // index root of the manifest
	Size      int64    `json:"size"`             // raw bytes of the root, a multiple of 4096
	ChunkSize int      `json:"chunk_size"`       // raw bytes of the largest chunk
	Servers   []string `json:"servers"`          // base URLs of image ports (8480), by IP address, preferred first
	Stores    []string `json:"stores,omitempty"` // base URLs of objects only, by IP address, tried first
	Pack      []byte   `json:"pack,omitempty"`   // the boot pack's map, verified; none: chunks only
	Idle      bool     `json:"idle,omitempty"`   // fetch pieces of the boot pack only when a read needs them
	// bytes of the boot pack that are kept compressed in memory; 0: a part of the machine's memory (KeepOf)
	Keep  int64        `json:"keep,omitempty"`
	Cache int64        `json:"cache"`           // bytes of unpacked chunks that are kept; 0: the default
	Swarm *SwarmConfig `json:"swarm,omitempty"` // how the boot pack is shared with peers; nil: it is not shared
	// the verified manifest, which the node sends to peers that boot after it; empty: it does not send the manifest
	Manifest  []byte       `json:"manifest,omitempty"`
	Signature []byte       `json:"signature,omitempty"` // of the manifest
	Device    int          `json:"device"`              // 0 for /dev/nbd0
	Network   link.Network `json:"network"`             // maintained by the daemon; Interface 0: not maintained

	Kernel *KernelFile `json:"kernel,omitempty"` // what other machines load from this node; nil: nothing

	RAM     int64        `json:"ram,omitempty"`  // bytes of compressed objects that are kept in memory; 0: none
	Disk    *CacheDisk   `json:"disk,omitempty"` // objects kept on a disk; nil: none
	Pending *PendingDisk `json:"late,omitempty"` // in place of Disk while init looks for it; nil: it does not
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
		// Resolving a name needs files of the root that this daemon serves.
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			return fmt.Errorf("block config: server %q is not given by IP address", s)
		}
	}
	return nil
}

// Sources returns the base URLs from which objects can be fetched, preferred first.
func (c Config) Sources() []string { return slices.Concat(c.Stores, c.Servers) }

// Status has the counters of both daemons. They are in shared memory, so they survive the replacement of a block
// daemon.
type Status struct {
	// by source: "server", "bucket", "peer": bytes received; "disk", "ram": bytes read from the node's cache; "pack",
	// "cache", "zero": bytes served without a fetch
	Bytes map[string]int64 `json:"bytes"`
	// bytes that this block daemon received, by a peer's address or a server's base URL
	Fed       map[string]int64 `json:"fed"`
	Reads     int64            `json:"reads"`    // requests answered to the kernel
	ReadBytes int64            `json:"read"`     // bytes answered to the kernel
	Fetches   int64            `json:"fetches"`  // objects received and verified
	Uploaded  int64            `json:"uploaded"` // bytes of objects that were sent to peers
	Messages  int64            `json:"messages"` // sent to trackers by this block daemon
	Control   int64            `json:"control"`  // bytes of these messages and their answers, without HTTP headers
	Usual     time.Duration    `json:"usual"`    // usual time of a transfer from a peer; 0: unknown
	Rejected  int64            `json:"rejected"` // answers that were not the requested object
	Failures  int64            `json:"failures"` // attempts that brought no object: refused, timed out, missing
	Errors    int64            `json:"errors"`   // requests answered with an I/O error
	Stalled   time.Duration    `json:"stalled"`  // time in which some read waited more than a second
	// from the block daemon's start until it had all pieces that boots read until booted; 0: not yet
	Complete  time.Duration `json:"complete"`
	Whole     time.Duration `json:"whole"`    // the same until it had the whole boot pack; 0: not yet
	Waiting   int           `json:"waiting"`  // reads that wait now
	Restarts  int64         `json:"restarts"` // times that the block daemon was replaced
	LinkFixes int64         `json:"link_fixes"`
	Server    string        `json:"server"`    // base URL of the last answer, "" before the first one
	PID       int           `json:"pid"`       // of this block daemon
	Uptime    time.Duration `json:"uptime"`    // of this block daemon
	Memory    int64         `json:"memory"`    // peak resident bytes of this block daemon
	Incidents []Incident    `json:"incidents"` // incidents after since, oldest first; only the newest 64 are kept
	Sequence  int64         `json:"sequence"`  // of the newest incident; pass it as the next since
}
