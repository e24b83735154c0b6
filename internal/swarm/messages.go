package swarm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Bounds of messages, in bytes. A bitmap of the largest pack is 1 KiB.
const (
	MaxMessage = 16 << 10
	maxHave    = MaxPieces / 8
)

// The messages to the tracker, as JSON. The address of a node is the one that it asks from; it says the port only.
type (
	// StartMessage is sent to /swarm/start by a node that boots and has no file yet.
	StartMessage struct {
		Pack   string `json:"pack"`
		Prefix int    `json:"prefix,omitempty"`
		Place  string `json:"place,omitempty"`
		Near   bool   `json:"near,omitempty"`

		Patience int64 `json:"patience_ms,omitempty"` // it waits so long for the answer; 0: for startTime
	}
	// StartReply says who has the files that a boot starts with.
	StartReply struct {
		Peers []netip.AddrPort `json:"peers,omitempty"` // none: ask the server
		Again bool             `json:"again,omitempty"` // but ask here once more before: it has no room
		Late  int64            `json:"late_ms,omitempty"`
	}
	// JoinMessage is sent to /swarm/join: a node says where it serves and what it has.
	JoinMessage struct {
		Pack   string   `json:"pack"`
		Pieces int      `json:"pieces"`
		Port   WirePort `json:"port,omitzero"`
		Prefix int      `json:"prefix,omitempty"` // length of its subnet's prefix
		Place  string   `json:"place,omitempty"`
		Near   bool     `json:"near,omitempty"`
		Full   int      `json:"full,omitempty"` // see Bitmap.Brief
		Have   Bitmap   `json:"have,omitempty"`
	}
	// JoinReply names peers.
	JoinReply struct {
		Peers  []netip.AddrPort `json:"peers"`
		Banned []netip.Addr     `json:"banned,omitempty"`
		Late   int64            `json:"late_ms,omitempty"` // word may be on its way for so long
	}
	// AskMessage is sent to /swarm/ask: which of these pieces may the node fetch from the server?
	AskMessage struct {
		Pack string           `json:"pack"`
		Port WirePort         `json:"port,omitzero"`
		Size int64            `json:"size"`
		Want pieceList        `json:"want,omitempty"`
		Soon int              `json:"soon,omitempty"`
		Upto int              `json:"upto,omitempty"`
		Max  int              `json:"max"`
		Full int              `json:"full,omitempty"` // see Bitmap.Brief
		Have Bitmap           `json:"have,omitempty"`
		Left []netip.AddrPort `json:"left,omitempty"`
		Fed  int              `json:"fed,omitempty"`

		Patience int64 `json:"patience_ms,omitempty"` // it waits so long for the answer; 0: for askLost
	}
	// AskReply has the pieces that are granted, and who has others.
	AskReply struct {
		Grant pieceList                    `json:"grant,omitempty"`
		Who   map[netip.AddrPort]pieceList `json:"who,omitempty"`   // has which pieces that reads wait for
		Other pieceList                    `json:"other,omitempty"` // pieces that somebody has
		Wait  int64                        `json:"wait_ms"`
		Late  int64                        `json:"late_ms,omitempty"`

		Banned []netip.Addr `json:"banned,omitempty"`
	}
	// LooseMessage is sent to /swarm/loose: who has an object that is in no pack?
	LooseMessage struct {
		Object chunk.Brief `json:"object"`
		Size   int64       `json:"size"`
		Port   WirePort    `json:"port,omitzero"`
	}
	// LooseReply names those who have it, or are getting it.
	LooseReply struct {
		Peers []netip.AddrPort `json:"peers"` // none: ask the server
		Wait  int64            `json:"wait_ms,omitempty"`
	}
	// WrongMessage is sent to /swarm/wrong: a peer sent wrong bytes.
	WrongMessage struct {
		Peer netip.AddrPort `json:"peer"`
	}
	// LeaveMessage is sent to /swarm/leave by a node that goes down.
	LeaveMessage struct {
		Pack string   `json:"pack"`
		Port WirePort `json:"port,omitzero"`
	}
)

// Port is the TCP port at which nodes serve their peers. A node on which something else has it takes any that is
// free; peers learn it from the tracker.
const Port = 8481

// wirePort is where a node serves. A message does not say the usual one, where nearly all do.
type WirePort uint16

// IsZero tells whether it is left out.
func (p WirePort) IsZero() bool { return p == Port }

// Port is the port itself.
func (p WirePort) Port() uint16 { return cmp.Or(uint16(p), Port) }

// shortKey is how much of the key of its swarm a question has, from its beginning: "sha256:" and 32 bits. The
// tracker knows in which swarms a node is, which are two or three.
const shortKey = 7 + 8

// maxHolders is how many have a piece in an answer: those that the server sent it to last.
const maxHolders = 2

// waitMost bounds how long a tracker may have a node not ask for a piece again.
const waitMost = time.Minute

// milliseconds is a time of a message, within its bounds.
func Milliseconds(n int64, most time.Duration) time.Duration {
	return time.Duration(min(max(n, 0), most.Milliseconds())) * time.Millisecond
}

// wirePatience says how long an answer is waited for, if that is longer than usual.
func wirePatience(d time.Duration) int64 {
	if d <= askLost {
		return 0
	}
	return d.Milliseconds()
}

// WireJoin is the message of a join.
func WireJoin(j Join) JoinMessage {
	m := JoinMessage{
		Pack:   j.Swarm,
		Pieces: j.Pieces,
		Port:   WirePort(j.Node.Port()),
		Prefix: max(0, j.Subnet.Bits()),
		Place:  j.Place,
		Near:   j.Near,
	}
	m.Full, m.Have = j.Have.Brief()
	return m
}

// WireJoined is the reply to a join.
func WireJoined(j Joined) JoinReply {
	return JoinReply{Peers: j.Peers, Banned: j.Banned, Late: j.Late.Milliseconds()}
}

// Joined is what a reply says, within its bounds.
func (r JoinReply) Joined() Joined {
	return Joined{Peers: r.Peers, Banned: r.Banned, Late: Milliseconds(r.Late, LateMost)}
}

// WireAsk is the message of a question.
func WireAsk(q Question) AskMessage {
	m := AskMessage{
		Pack:     q.Swarm[:min(len(q.Swarm), shortKey)],
		Port:     WirePort(q.Node.Port()),
		Size:     q.Size,
		Want:     q.Want,
		Soon:     q.Soon,
		Upto:     q.Upto,
		Max:      q.Max,
		Left:     q.Left,
		Fed:      q.Fed,
		Patience: wirePatience(q.Patience),
	}
	m.Full, m.Have = q.Have.Brief()
	return m
}

// WireAnswer is the reply to a question.
func WireAnswer(a Answer) AskReply {
	r := AskReply{Grant: a.Grant, Wait: a.Wait.Milliseconds(), Late: a.Late.Milliseconds(), Banned: a.Banned}
	for _, n := range a.Named {
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

// Answer is what a reply says, within its bounds.
func (r AskReply) Answer() Answer {
	a := Answer{
		Grant:  r.Grant,
		Wait:   Milliseconds(r.Wait, waitMost),
		Late:   Milliseconds(r.Late, LateMost),
		Banned: r.Banned,
	}
	who := r.holders()
	for _, p := range slices.Sorted(maps.Keys(who)) {
		a.Named = append(a.Named, Named{p, who[p]})
	}
	for _, p := range r.Other {
		a.Named = append(a.Named, Named{Piece: p})
	}
	return a
}

// holders are those who have a piece that a read waits for, the other way about than in the answer: there one who
// has several is named once.
func (r AskReply) holders() map[int][]netip.AddrPort {
	out := map[int][]netip.AddrPort{}
	for _, peer := range slices.SortedFunc(maps.Keys(r.Who), netip.AddrPort.Compare) {
		for _, p := range r.Who[peer] {
			if len(out) < maxListed && len(out[p]) < maxHolders {
				out[p] = append(out[p], peer)
			}
		}
	}
	return out
}

// asker is the address of who asks, with the port at which it serves.
func Sender(remote string, port uint16) netip.AddrPort {
	a, err := netip.ParseAddrPort(remote)
	if err != nil || port == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), port)
}

// decode reads a message, of which there is no more than its bound.
func Decode(r io.Reader, v any) error {
	b, err := io.ReadAll(io.LimitReader(r, MaxMessage+1))
	if err == nil && len(b) > MaxMessage {
		err = fmt.Errorf("a message of more than %d bytes", MaxMessage)
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	return err
}
