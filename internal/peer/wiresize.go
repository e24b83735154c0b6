package peer

import "encoding/json"

// HeaderBytes is about what HTTP adds to a message to the tracker and its answer: see TestHeaderBytes.
const HeaderBytes = 115

// JoinBytes is what a join and its answer have on the wire, for whoever counts without one.
func JoinBytes(j Join, out Joined) int64 {
	return HeaderBytes + encoded(wireJoin(j)) + encoded(wireJoined(out))
}

// AskBytes is what a question has on the wire, with what HTTP adds to its answer.
func AskBytes(q Question) int64 {
	return HeaderBytes + encoded(wireAsk(q))
}

// AnswerBytes is what an answer itself has.
func AnswerBytes(a Answer) int64 { return encoded(wireAnswer(a)) }

func encoded(v any) int64 {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // these are numbers and texts
	}
	return int64(len(b))
}
