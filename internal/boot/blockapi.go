package boot

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
)

// The names that the daemons' processes go by. The '@' at the front makes systemd leave them alone when it
// switches roots and when it shuts down (systemd, "Root Storage Daemons").
const (
	SupervisorName = "@pando-super"
	BlockName      = "@pando-block"
)

// BlockSocket is the block daemon's unix socket below the directory that it lives in: HTTP, GET /status?since=SEQ
// answers a BlockStatus, PUT /network takes a Network, POST /reads ends the recording of the boot's reads and
// answers a Recording, POST /booted says that the boot is over, POST /leave takes the node out of its swarm.
const BlockSocket = "block.sock"

// BlockConfig is what the supervisor reads as JSON on its standard input: one root file system, where to
// fetch it, and the network that must stay up for it.
type BlockConfig struct {
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
	Manifest  []byte  `json:"manifest,omitempty"`
	Signature []byte  `json:"signature,omitempty"` // of the manifest
	Device    int     `json:"device"`              // 0 for /dev/nbd0
	Network   Network `json:"network"`             // kept up by the daemon; zero Interface: left alone

	RAM  int64      `json:"ram,omitempty"`  // bytes of objects kept in memory, as they are sent; 0: none
	Disk *CacheDisk `json:"disk,omitempty"` // objects kept on a disk; nil: none
	Late *LateDisk  `json:"late,omitempty"` // in the place of Disk: one that is still looked for; nil: none is
}

// Validate returns an error that says which field cannot be used.
func (c BlockConfig) Validate() error {
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
	for _, s := range c.sources() {
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

// sources are the base URLs of objects, preferred first.
func (c BlockConfig) sources() []string { return slices.Concat(c.Stores, c.Servers) }

// Network is the state of one interface that the daemon puts back whenever something takes it away.
type Network struct {
	Interface int            `json:"interface"` // index; udev may rename the interface, the index stays
	Name      string         `json:"name"`      // as it was called in the initramfs, for messages
	MAC       fleet.MAC      `json:"mac"`       // finds it again when a driver reload changed the index
	MTU       int            `json:"mtu,omitempty"`
	Addresses []netip.Prefix `json:"addresses"` // address with the length of its subnet
	Routes    []Route        `json:"routes"`    // beside those that come with the addresses
}

// Route is one route through the interface.
type Route struct {
	To     netip.Prefix `json:"to,omitzero"`  // zero: the default route of Via's family
	Via    netip.Addr   `json:"via,omitzero"` // zero: on the link
	Metric int          `json:"metric,omitempty"`
}

// BlockStatus is what the daemons count. It lives in memory that both share, so it goes on counting when the
// block daemon is replaced.
type BlockStatus struct {
	// by source: "server", "bucket", "peer" received; "disk", "ram" from the node's cache; "pack", "cache", "zero"
	// served without
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

// Recording is what a boot read of its root, and how its boot pack did until the recording ended.
type Recording struct {
	Began time.Duration `json:"began"` // CLOCK_MONOTONIC from which reads are counted; 0: not known
	Reads []byte        `json:"reads"` // see trace.EncodeReads
	Count int           `json:"count"` // of them
	// there were more, before this block daemon: of no use for a boot pack
	Partial  bool  `json:"partial"`
	Cut      bool  `json:"cut,omitempty"` // there were more after these, which are used all the same
	Read     int64 `json:"read"`          // bytes read; zeros, which nobody sends, do not count
	Received int64 `json:"received"`      // bytes of objects that came for them
	Peers    int64 `json:"peers"`         // of these, from peers
	// object of the boot pack's map, "" without one; the rest is about it
	Pack   string `json:"pack,omitempty"`
	Hits   int64  `json:"hits"`   // bytes read that the pack had
	Misses int64  `json:"misses"` // bytes read that it did not have
	Wasted int64  `json:"wasted"` // bytes of it until booted that were fetched and not read
	Late   int64  `json:"late"`   // bytes of the rest of it that were fetched and not read
}

// Incident is one thing that went wrong and was dealt with; the agent makes an event of it.
type Incident struct {
	Sequence int64         `json:"sequence"` // 1, 2, ...
	Time     time.Time     `json:"time"`     // node's clock, which may be set meanwhile
	At       time.Duration `json:"at"`       // CLOCK_MONOTONIC
	Kind     IncidentKind  `json:"kind"`
	Source   string        `json:"source,omitempty"` // base URL of the server
	Object   string        `json:"object,omitempty"` // 64 hex digits
	Message  string        `json:"message"`
}

// IncidentKind says what an incident is about.
type IncidentKind string

// The kinds of incidents.
const (
	WrongBytes IncidentKind = "wrong-bytes" // a source sent bytes that are not the object; they were dropped
	Missing    IncidentKind = "missing"     // a source says that it has no such object
	ServerDown IncidentKind = "server-down" // a source stopped answering
	ServerUp   IncidentKind = "server-up"   // reads continue after every source was away
	Reattached IncidentKind = "reattached"  // the block daemon died and another took over the device
	LinkFixed  IncidentKind = "link-fixed"  // link, address or route had been taken away and was put back
	LostPiece  IncidentKind = "lost-piece"  // a piece of the boot pack cannot be had or used: chunks instead
	PeerBanned IncidentKind = "peer-banned" // a peer sent wrong bytes
	// a transfer from a peer broke off, or took much longer than others: the first one
	PeerFailed   IncidentKind = "peer-failed"
	PeerLeft     IncidentKind = "peer-left"     // a peer was slow, or failed, too often
	PeersGone    IncidentKind = "peers-gone"    // peers are gone without a goodbye, while their pieces are wanted
	TrackerLost  IncidentKind = "tracker-lost"  // no server says who has what
	TrackerUp    IncidentKind = "tracker-up"    // one does again
	BrokenImage  IncidentKind = "broken-image"  // verified bytes that cannot be used: the image was built wrong
	CacheFailed  IncidentKind = "cache-failed"  // the node's cache cannot be read, or not be written any more
	CacheDamaged IncidentKind = "cache-damaged" // the node's cache has objects that are not what they were
)
