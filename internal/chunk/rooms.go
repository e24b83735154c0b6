package chunk

import "sync"

// roomsMost is how many pieces are unpacked at a time; whoever unpacks more waits, so that memory stays small.
const roomsMost = 2

// unpackRooms are buffers to unpack into, as large as was wanted so far. Who needs one gets that which was used
// last, so that there is a second one only where two pieces were unpacked at the same time.
type unpackRooms struct {
	turns chan struct{}
	mu    sync.Mutex
	free  [][]byte
}

var rooms = &unpackRooms{turns: make(chan struct{}, roomsMost)}

// take returns an empty buffer with room for so many bytes, which is to be given back.
func (r *unpackRooms) take(need int) []byte {
	r.turns <- struct{}{}
	r.mu.Lock()
	defer r.mu.Unlock()
	var room []byte
	if last := len(r.free) - 1; last >= 0 {
		room, r.free = r.free[last], r.free[:last]
	}
	if cap(room) < need {
		room = make([]byte, 0, need)
	}
	return room
}

// give takes a buffer back.
func (r *unpackRooms) give(room []byte) {
	r.mu.Lock()
	r.free = append(r.free, room)
	r.mu.Unlock()
	<-r.turns
}
