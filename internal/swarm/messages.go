package swarm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"sort"
	"time"

	"pando/internal/chunk"
)

// Limits of messages, in bytes. The bitmap of a pack with MaxPieces pieces has 1 KiB.
const (
	MaxMessage = 16 << 10
	maxHave    = MaxPieces / 8
)

// The messages to the tracker, as JSON. A node is known by its source address, so it tells only its port.
type (
	// JoinMessage is sent to /swarm/start by a node that boots and has no file yet.
	JoinMessage struct {
		Pack      string `json:"pack"`
		Prefix    int    `json:"prefix,omitempty"`
		Location  string `json:"place,omitempty"`
		LocalOnly bool   `json:"near,omitempty"`

		Patience int64 `json:"patience_ms,omitempty"` // the node's timeout; 0: usualJoinTimeout
	}
	// JoinReplyMessage names nodes that have the bootstrap files.
	JoinReplyMessage struct {
		Peers         []netip.AddrPort `json:"peers,omitempty"` // none: the server has the files
		Again         bool             `json:"again,omitempty"` // repeat the request first: the server has no room now
		AnnounceDelay int64            `json:"late_ms,omitempty"`
	}
	// AnnounceMessage is sent to /swarm/join. It tells where a node serves and what it has.
	AnnounceMessage struct {
		Pack      string   `json:"pack"`
		Pieces    int      `json:"pieces"`
		Port      WirePort `json:"port,omitzero"`
		Prefix    int      `json:"prefix,omitempty"` // length of its subnet's prefix
		Location  string   `json:"place,omitempty"`
		LocalOnly bool     `json:"near,omitempty"`
		Full      int      `json:"full,omitempty"` // see Bitmap.Compact
		Have      Bitmap   `json:"have,omitempty"`
	}
	// AnnounceReplyMessage names peers.
	AnnounceReplyMessage struct {
		Peers         []netip.AddrPort `json:"peers"`
		Banned        []netip.Addr     `json:"banned,omitempty"`
		AnnounceDelay int64            `json:"late_ms,omitempty"`
	}
	// RequestMessage is sent to /swarm/ask: which of these pieces may be fetched from the server?
	RequestMessage struct {
		Pack string           `json:"pack"`
		Port WirePort         `json:"port,omitzero"`
		Size int64            `json:"size"`
		Want pieceList        `json:"want,omitempty"`
		Soon int              `json:"soon,omitempty"`
		Upto int              `json:"upto,omitempty"`
		Max  int              `json:"max"`
		Full int              `json:"full,omitempty"` // see Bitmap.Compact
		Have Bitmap           `json:"have,omitempty"`
		Left []netip.AddrPort `json:"left,omitempty"`
		Fed  int              `json:"fed,omitempty"`

		Patience int64 `json:"patience_ms,omitempty"` // the node's timeout; 0: trackerTimeout
	}
	// RequestReplyMessage has the granted pieces, and tells which nodes have others.
	RequestReplyMessage struct {
		Grant         pieceList                    `json:"grant,omitempty"`
		Who           map[netip.AddrPort]pieceList `json:"who,omitempty"`   // holders of urgent pieces
		Other         pieceList                    `json:"other,omitempty"` // other pieces that some node has
		Wait          int64                        `json:"wait_ms"`
		AnnounceDelay int64                        `json:"late_ms,omitempty"`

		Banned []netip.Addr `json:"banned,omitempty"`
	}
	// DemandMessage is sent to /swarm/loose. It asks which nodes have an object that is in no pack.
	DemandMessage struct {
		Object chunk.ShortID `json:"object"`
		Size   int64         `json:"size"`
		Port   WirePort      `json:"port,omitzero"`
	}
	// DemandReplyMessage names nodes that have the object, or are getting it.
	DemandReplyMessage struct {
		Peers []netip.AddrPort `json:"peers"` // none: the server sends it
		Wait  int64            `json:"wait_ms,omitempty"`
	}
	// CorruptMessage is sent to /swarm/wrong. It reports a peer that sent wrong bytes.
	CorruptMessage struct {
		Peer netip.AddrPort `json:"peer"`
	}
	// LeaveMessage is sent to /swarm/leave by a node that goes down.
	LeaveMessage struct {
		Pack string   `json:"pack"`
		Port WirePort `json:"port,omitzero"`
	}
)

// Port is the TCP port at which nodes serve their peers. If it is taken, a node uses any free port, which the tracker
// tells its peers.
const Port = 8481

// WirePort is the port of a node in a message. The usual port is left out.
type WirePort uint16

// IsZero reports whether the port is the usual one, which JSON leaves out.
func (p WirePort) IsZero() bool { return p == Port }

// Port returns the port number.
func (p WirePort) Port() uint16 { return cmp.Or(uint16(p), Port) }

// shortKey is the length of a pack's name in a request: "sha256:" and 32 bits in hex. The tracker completes the name,
// because a node is in two or three swarms only.
const shortKey = 7 + 8

// maxHolders is how many holders of a piece a reply names: those that the server sent the piece to last.
const maxHolders = 2

// maxRetryAfter is the longest time for which a tracker can keep a node from requesting a piece again.
const maxRetryAfter = time.Minute

// Milliseconds converts n, the milliseconds of a message, to a duration between 0 and most.
func Milliseconds(n int64, most time.Duration) time.Duration {
	return time.Duration(min(max(n, 0), most.Milliseconds())) * time.Millisecond
}

// encodeTimeout returns a timeout in milliseconds; 0: the usual timeout, which a message leaves out.
func encodeTimeout(d time.Duration) int64 {
	if d <= trackerTimeout {
		return 0
	}
	return d.Milliseconds()
}

// EncodeAnnouncement returns the message of an announcement.
func EncodeAnnouncement(j Announcement) AnnounceMessage {
	m := AnnounceMessage{
		Pack:      j.Swarm,
		Pieces:    j.Pieces,
		Port:      WirePort(j.Node.Port()),
		Prefix:    max(0, j.Subnet.Bits()),
		Location:  j.Location,
		LocalOnly: j.LocalOnly,
	}
	m.Full, m.Have = j.Have.Compact()
	return m
}

// EncodeAnnounceReply returns the message of the reply to an announcement.
func EncodeAnnounceReply(j AnnounceReply) AnnounceReplyMessage {
	return AnnounceReplyMessage{Peers: j.Peers, Banned: j.Banned, AnnounceDelay: j.AnnounceDelay.Milliseconds()}
}

// Reply returns the content of the message, bounded.
func (r AnnounceReplyMessage) Reply() AnnounceReply {
	return AnnounceReply{Peers: r.Peers, Banned: r.Banned,
		AnnounceDelay: Milliseconds(r.AnnounceDelay, MaxAnnounceDelay)}
}

// EncodeRequest returns the message of a piece request.
func EncodeRequest(q PieceRequest) RequestMessage {
	m := RequestMessage{
		Pack:     q.Swarm[:min(len(q.Swarm), shortKey)],
		Port:     WirePort(q.Node.Port()),
		Size:     q.Size,
		Want:     q.Want,
		Soon:     q.Urgent,
		Upto:     q.Limit,
		Max:      q.Max,
		Left:     q.Avoided,
		Fed:      q.FromPeers,
		Patience: encodeTimeout(q.Timeout),
	}
	m.Full, m.Have = q.Have.Compact()
	return m
}

// EncodeAnswer returns the message of the answer to a piece request.
func EncodeAnswer(a Answer) RequestReplyMessage {
	r := RequestReplyMessage{
		Grant:         a.Grant,
		Wait:          a.RetryAfter.Milliseconds(),
		AnnounceDelay: a.AnnounceDelay.Milliseconds(),
		Banned:        a.Banned,
	}
	for _, n := range a.Held {
		if len(n.Peers) == 0 {
			r.Other = append(r.Other, n.Piece)
			continue
		}
		if r.Who == nil {
			r.Who = map[netip.AddrPort]pieceList{}
		}
		for _, p := range n.Peers {
			r.Who[p] = append(r.Who[p], n.Piece)
		}
	}
	return r
}

// Answer returns the content of the message, bounded.
func (r RequestReplyMessage) Answer() Answer {
	a := Answer{
		Grant:         r.Grant,
		RetryAfter:    Milliseconds(r.Wait, maxRetryAfter),
		AnnounceDelay: Milliseconds(r.AnnounceDelay, MaxAnnounceDelay),
		Banned:        r.Banned,
	}
	who := r.holdersByPiece()
	for _, p := range slices.Sorted(maps.Keys(who)) {
		a.Held = append(a.Held, HeldPiece{p, who[p]})
	}
	for _, p := range r.Other {
		a.Held = append(a.Held, HeldPiece{Piece: p})
	}
	return a
}

// holdersByPiece inverts Who, which lists pieces by node, at most maxHolders nodes for a piece.
func (r RequestReplyMessage) holdersByPiece() map[int][]netip.AddrPort {
	out := map[int][]netip.AddrPort{}
	peers := slices.Collect(maps.Keys(r.Who))
	// sort.Slice is in a node's program already; slices.SortFunc would be compiled for this type alone, 9 KB.
	sort.Slice(peers, func(i, j int) bool { return peers[i].Compare(peers[j]) < 0 })
	for _, peer := range peers {
		for _, p := range r.Who[peer] {
			if len(out) < maxListed && len(out[p]) < maxHolders {
				out[p] = append(out[p], peer)
			}
		}
	}
	return out
}

// NodeAddr returns the address where a client serves: its remote address with the given port.
func NodeAddr(remote string, port uint16) netip.AddrPort {
	a, err := netip.ParseAddrPort(remote)
	if err != nil || port == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), port)
}

// Decode reads a message of at most MaxMessage bytes.
func Decode(r io.Reader, v any) error {
	b, err := io.ReadAll(io.LimitReader(r, MaxMessage+1))
	if err == nil && len(b) > MaxMessage {
		err = fmt.Errorf("the message is larger than %d bytes", MaxMessage)
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	return err
}
