package chunk

import (
	"github.com/zeebo/blake3"
	"golang.org/x/sys/cpu"
)

// FastDigest is a second digest of an object's stored bytes, BLAKE3 of 256 bits. An object's name is its SHA-256, which
// processors without instructions for it take five times as long for.
type FastDigest [32]byte

// FastSum returns the fast digest of an object's stored bytes.
func FastSum(stored []byte) FastDigest { return blake3.Sum256(stored) }

// FastDigests are the fast digests of objects, as somebody who is trusted for the objects' names has signed them.
// nil has none.
type FastDigests map[ID]FastDigest

// Of are the fast digests of entries, in their order.
func (p FastDigests) Of(entries []Entry) []FastDigest {
	out := make([]FastDigest, len(entries))
	for i, e := range entries {
		out[i] = p[e.ID]
	}
	return out
}

// Check is Check, and by an object's fast digest alone where that is quicker. Bytes that are not what the fast
// digest is of may still be the object: its name decides.
func (p FastDigests) Check(id ID, stored []byte) (Verified, error) {
	return p.check(id, stored, cpu.X86.HasAVX2)
}

func (p FastDigests) check(id ID, stored []byte, quicker bool) (Verified, error) {
	if proof, ok := p[id]; ok && quicker && FastSum(stored) == proof {
		return Verified{id: id, stored: stored}, nil
	}
	return Check(id, stored)
}
