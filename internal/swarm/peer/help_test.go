package peer

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"pando/internal/swarm"
)

const ms = time.Millisecond

// at is the address of node n.
func at(n byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, n}), 7000)
}

func chance() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// upTo returns a bitmap with the first n of that number of pieces.
func upTo(pieces, n int) swarm.Bitmap {
	b := swarm.NewBitmap(pieces)
	for p := range n {
		b.Set(p)
	}
	return b
}
