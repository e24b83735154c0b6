package swarm

import (
	"encoding/json"
	"net/netip"
	"time"

	"pando/internal/chunk"
)

// HeaderBytes is about what HTTP adds to a message and its reply, in bytes. See TestHeaderBytes.
const HeaderBytes = 115

// AnnounceBytes returns the bytes of an announcement and its reply on the wire. The simulator uses this and the
// functions below.
func AnnounceBytes(j Announcement, out AnnounceReply) int64 {
	return HeaderBytes + encoded(EncodeAnnouncement(j)) + encoded(EncodeAnnounceReply(out))
}

// RequestBytes returns the bytes of a piece request, with the headers of its reply.
func RequestBytes(q PieceRequest) int64 {
	return HeaderBytes + encoded(EncodeRequest(q))
}

// AnswerBytes returns the bytes of the body of the reply to a piece request.
func AnswerBytes(a Answer) int64 { return encoded(EncodeAnswer(a)) }

// JoinBytes returns the bytes of a join request and its reply.
func JoinBytes(s JoinRequest, timeout time.Duration, a JoinReply) int64 {
	q := JoinMessage{
		Pack:      s.Swarm,
		Prefix:    max(0, s.Subnet.Bits()),
		Location:  s.Location,
		LocalOnly: s.LocalOnly,
		Patience:  timeout.Milliseconds(),
	}
	return HeaderBytes + encoded(q) + encoded(JoinReplyMessage{a.Peers, a.Again, a.AnnounceDelay.Milliseconds()})
}

// DemandBytes returns the bytes of a request for a demand object and its reply.
func DemandBytes(id chunk.ShortID, node netip.AddrPort, size int64, names []netip.AddrPort, wait time.Duration) int64 {
	return HeaderBytes + encoded(
		DemandMessage{id, size, WirePort(node.Port())},
	) + encoded(
		DemandReplyMessage{names, wait.Milliseconds()},
	)
}

// CorruptBytes returns the bytes of a report of wrong bytes and its reply.
func CorruptBytes(accused netip.AddrPort) int64 {
	return HeaderBytes + encoded(CorruptMessage{accused}) + encoded(struct{}{})
}

func encoded(v any) int64 {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // cannot fail: messages have numbers and text only
	}
	return int64(len(b))
}
