package blockapi

import (
	"maps"
	"slices"
	"time"
)

// Incident is a fault that the daemon handled. The agent turns it into an event.
type Incident struct {
	Sequence int64         `json:"sequence"` // 1, 2, ...
	Time     time.Time     `json:"time"`     // node's clock, which may be set later
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
	Missing    IncidentKind = "missing"     // a source does not have the object
	ServerDown IncidentKind = "server-down" // a source stopped answering
	ServerUp   IncidentKind = "server-up"   // a source answers again after all were unreachable
	Reattached IncidentKind = "reattached"  // the block daemon died and another took over the device
	LinkFixed  IncidentKind = "link-fixed"  // link, address or route was removed, and was restored
	LostPiece  IncidentKind = "lost-piece"  // a piece of the boot pack is unusable; chunks are read instead
	PeerBanned IncidentKind = "peer-banned" // a peer sent wrong bytes
	// a transfer from a peer failed, or took much longer than others; reported once
	PeerFailed   IncidentKind = "peer-failed"
	PeerLeft     IncidentKind = "peer-left"     // a peer was slow or failed too often; it is avoided
	PeersGone    IncidentKind = "peers-gone"    // peers with wanted pieces disappeared
	TrackerLost  IncidentKind = "tracker-lost"  // no tracker answers
	TrackerUp    IncidentKind = "tracker-up"    // a tracker answers again
	BrokenImage  IncidentKind = "broken-image"  // verified bytes cannot be used: the image was built wrong
	CacheFailed  IncidentKind = "cache-failed"  // the node's cache cannot be read or written any more
	CacheDamaged IncidentKind = "cache-damaged" // the node's cache has damaged objects
)

// IncidentHints has the hint for each kind of incident, "" where nothing is to be done.
var IncidentHints = map[IncidentKind]string{
	WrongBytes: "run `pando store check` on the server; it finds and names objects that are damaged",
	Missing:    "the version is not whole on that server: build or copy it again",
	ServerDown: "reads wait, and go on when it answers: does `pando serve` run there, and does the network lead there?",
	ServerUp:   "",
	Reattached: "reads went on by themselves; if it comes again the node may be short of memory, which its " +
		"kernel's log says",
	LinkFixed:   "something on the node took it away: have what manages the image's network leave that interface alone",
	LostPiece:   "the boot goes on with more bytes; `pando store check` on the server names what is damaged",
	PeerBanned:  "nothing wrong was used; look after that machine: its memory or its network may change bytes",
	PeerFailed:  "the piece comes from others; if it is often the same machine, look after its link",
	PeerLeft:    "the boot goes on without it; if it is often the same machine, look after its link",
	PeersGone:   "they were switched off or reset, or the network lost them; the boot goes on without them",
	TrackerLost: "the boot goes on, and the server sends more of it: does `pando serve` run there?",
	TrackerUp:   "",
	BrokenImage: "build the image again",
	CacheFailed: "the node goes on without its cache: is the disk broken, or was it pulled out? `pando node " +
		"cache` prepares one",
	CacheDamaged: "it was fetched again; if it comes again the disk is failing: `pando node cache` prepares another",
}

// IncidentKinds returns all kinds of incidents, sorted.
func IncidentKinds() []IncidentKind { return slices.Sorted(maps.Keys(IncidentHints)) }
