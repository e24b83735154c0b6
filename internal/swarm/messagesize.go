package swarm

import (
	"encoding/json"
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// HeaderBytes is about what HTTP adds to a message to the tracker and its answer: see TestHeaderBytes.
const HeaderBytes = 115

// JoinBytes is what a join and its answer have on the wire, for whoever counts without one.
func AnnounceBytes(j Announcement, out AnnounceReply) int64 {
	return HeaderBytes + encoded(EncodeAnnouncement(j)) + encoded(EncodeAnnounceReply(out))
}

// AskBytes is what a question has on the wire, with what HTTP adds to its answer.
func RequestBytes(q PieceRequest) int64 {
	return HeaderBytes + encoded(EncodeRequest(q))
}

// AnswerBytes is what an answer itself has.
func AnswerBytes(a Answer) int64 { return encoded(EncodeAnswer(a)) }

// StartBytes is what a start and its answer have on the wire.
func JoinBytes(s JoinRequest, patience time.Duration, a JoinReply) int64 {
	q := JoinMessage{
		Pack:      s.Swarm,
		Prefix:    max(0, s.Subnet.Bits()),
		Location:  s.Location,
		LocalOnly: s.LocalOnly,
		Patience:  patience.Milliseconds(),
	}
	return HeaderBytes + encoded(q) + encoded(JoinReplyMessage{a.Peers, a.Again, a.AnnounceDelay.Milliseconds()})
}

// FindBytes is what a question for a loose object and its answer have on the wire.
func DemandBytes(id chunk.Brief, node netip.AddrPort, size int64, names []netip.AddrPort, wait time.Duration) int64 {
	return HeaderBytes + encoded(
		DemandMessage{id, size, WirePort(node.Port())},
	) + encoded(
		DemandReplyMessage{names, wait.Milliseconds()},
	)
}

// WrongBytes is what a report of wrong bytes and its answer have on the wire.
func CorruptBytes(accused netip.AddrPort) int64 {
	return HeaderBytes + encoded(CorruptMessage{accused}) + encoded(struct{}{})
}

func encoded(v any) int64 {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // these are numbers and texts
	}
	return int64(len(b))
}
