package chunk

import (
	"github.com/zeebo/blake3"
	"golang.org/x/sys/cpu"
)

// Proof is a second digest of an object's stored bytes, BLAKE3 of 256 bits. An object's name is its SHA-256, which
// processors without instructions for it take five times as long for.
type Proof [32]byte

// Prove returns the proof of an object's stored bytes.
func Prove(stored []byte) Proof { return blake3.Sum256(stored) }

// Proofs are the proofs of objects, as somebody who is trusted for the objects' names has signed them. nil has none.
type Proofs map[ID]Proof

// Of are the proofs of entries, in their order.
func (p Proofs) Of(entries []Entry) []Proof {
	out := make([]Proof, len(entries))
	for i, e := range entries {
		out[i] = p[e.ID]
	}
	return out
}

// Check is Check, and by an object's proof alone where that is quicker. Bytes that are not what the proof is of may
// still be the object: its name decides.
func (p Proofs) Check(id ID, stored []byte) (Verified, error) {
	return p.check(id, stored, cpu.X86.HasAVX2)
}

func (p Proofs) check(id ID, stored []byte, quicker bool) (Verified, error) {
	if proof, ok := p[id]; ok && quicker && Prove(stored) == proof {
		return Verified{id: id, stored: stored}, nil
	}
	return Check(id, stored)
}
