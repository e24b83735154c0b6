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
func JoinBytes(j Join, out Joined) int64 {
	return HeaderBytes + encoded(WireJoin(j)) + encoded(WireJoined(out))
}

// AskBytes is what a question has on the wire, with what HTTP adds to its answer.
func AskBytes(q Question) int64 {
	return HeaderBytes + encoded(WireAsk(q))
}

// AnswerBytes is what an answer itself has.
func AnswerBytes(a Answer) int64 { return encoded(WireAnswer(a)) }

// StartBytes is what a start and its answer have on the wire.
func StartBytes(s Start, patience time.Duration, a StartAnswer) int64 {
	q := StartMessage{
		Pack:     s.Swarm,
		Prefix:   max(0, s.Subnet.Bits()),
		Place:    s.Place,
		Near:     s.Near,
		Patience: patience.Milliseconds(),
	}
	return HeaderBytes + encoded(q) + encoded(StartReply{a.Peers, a.Again, a.Late.Milliseconds()})
}

// FindBytes is what a question for a loose object and its answer have on the wire.
func FindBytes(id chunk.Brief, node netip.AddrPort, size int64, names []netip.AddrPort, wait time.Duration) int64 {
	return HeaderBytes + encoded(
		LooseMessage{id, size, WirePort(node.Port())},
	) + encoded(
		LooseReply{names, wait.Milliseconds()},
	)
}

// WrongBytes is what a report of wrong bytes and its answer have on the wire.
func WrongBytes(accused netip.AddrPort) int64 {
	return HeaderBytes + encoded(WrongMessage{accused}) + encoded(struct{}{})
}

func encoded(v any) int64 {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // these are numbers and texts
	}
	return int64(len(b))
}
