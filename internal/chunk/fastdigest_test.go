package chunk

import (
	"errors"
	"testing"
)

// TestProofs: each way to check an object accepts its bytes and no others.
func TestProofs(t *testing.T) {
	object, other := []byte("an object"), []byte("another one")
	id := Sum(object)
	for name, proofs := range map[string]FastDigests{
		"none":              nil,
		"its own":           {id: FastSum(object)},
		"of another object": {id: FastSum([]byte("something else"))},
	} {
		for _, quicker := range []bool{false, true} {
			v, err := proofs.check(id, object, quicker)
			if err != nil || v.ID() != id || string(v.Stored()) != string(object) {
				t.Errorf("proof %s, quicker %v: the object: %v", name, quicker, err)
			}
			var wrong *WrongBytesError
			if v, err := proofs.check(id, other, quicker); !errors.As(err, &wrong) || v.Stored() != nil {
				t.Errorf("proof %s, quicker %v: other bytes: %v, want a WrongBytesError", name, quicker, err)
			}
		}
	}
}

// TestFastDigestIsUsed: where the fast digest is faster, it decides alone: these bytes match the fast digest but not
// the name.
func TestFastDigestIsUsed(t *testing.T) {
	id, bytes := Sum([]byte("an object")), []byte("what the map's signer says that it is")
	proofs := FastDigests{id: FastSum(bytes)}
	if _, err := proofs.check(id, bytes, true); err != nil {
		t.Errorf("quicker: %v", err)
	}
	if _, err := proofs.check(id, bytes, false); err == nil {
		t.Error("without instructions for it the proof was used all the same")
	}
}

// TestFastSum: the algorithm is BLAKE3 with 256 bits and without a key. The digest is from the test vectors of its
// authors.
func TestFastSum(t *testing.T) {
	const empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
	if got := (ID{Sum: FastSum(nil)}).Name(); got != empty {
		t.Errorf("BLAKE3 of nothing: %s", got)
	}
}

func BenchmarkCheck(b *testing.B) {
	object := make([]byte, 96<<10)
	id := Sum(object)
	proofs := FastDigests{id: FastSum(object)}
	for name, quicker := range map[string]bool{"name": false, "proof": true} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(object)))
			for b.Loop() {
				if _, err := proofs.check(id, object, quicker); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
