package store

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"pando/internal/fleet"
)

// flipped flips one bit of a file, calls then, and restores the file.
func flipped(t *testing.T, path string, good []byte, at int, then func()) {
	t.Helper()
	bad := bytes.Clone(good)
	bad[at] ^= 1 << (at % 8)
	if err := os.WriteFile(path, bad, 0o644); err != nil {
		t.Fatal(err)
	}
	then()
	if err := os.WriteFile(path, good, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFlippedBitBesideAManifest: a flipped bit in any byte of a sidecar is found and reported with version and file.
// Provenance and signature are restored from the other store, and the server makes boot packs again.
func TestFlippedBitBesideAManifest(t *testing.T) {
	d, copied, v, public := twoStores(t)
	for _, suffix := range []string{signatureSuffix, provenanceSuffix, packsSuffix, sumsSuffix} {
		path := d.sidecar(v, suffix)
		good, err := os.ReadFile(path)
		if err != nil || len(good) == 0 {
			t.Fatal(len(good), err)
		}
		for at := range good {
			flipped(t, path, good, at, func() { besideIsRepaired(t, d, copied, v, public, suffix, good) })
			if t.Failed() {
				t.Fatalf("bit %d of byte %d of %s", at%8, at, path)
			}
			if suffix == packsSuffix { // it was taken out, and its sum is of what was there
				if r, err := d.Check(t.Context(), []string{public}, nil); err != nil || len(r.Problems) > 0 {
					t.Fatalf("put back: %+v, %v", r.Problems, err)
				}
			}
		}
	}
}

func besideIsRepaired(t *testing.T, d, copied *Dir, v fleet.Digest, public, suffix string, good []byte) {
	t.Helper()
	r, err := d.Check(t.Context(), []string{public}, nil)
	if err != nil || len(r.Problems) == 0 || r.Problems[0].Version != v {
		t.Errorf("%+v, %v", r, err)
	}
	in := Inspection{
		Keys:     []string{public},
		Versions: []fleet.Digest{v},
		From:     []RepairSource{DirSource{copied}},
		Repair:   true,
	}
	if r, err = d.Inspect(t.Context(), in); err != nil || len(r.Problems) > 0 || len(r.Fixed) == 0 {
		t.Errorf("repair: %+v, %v", r, err)
	}
	if r, err = d.Check(t.Context(), []string{public}, nil); err != nil || len(r.Problems) > 0 || r.Versions != 1 {
		t.Errorf("after the repair: %+v, %v", r, err)
	}
	got, err := os.ReadFile(d.sidecar(v, suffix))
	if suffix == packsSuffix {
		if !os.IsNotExist(err) {
			t.Errorf("the list of boot packs is still there: %s, %v", got, err)
		}
	} else if !bytes.Equal(got, good) {
		t.Errorf("it is not what it was: %q, %v", got, err)
	}
}

// TestDamagedSidecarThatNobodyHas: damage that no other store can repair is reported with what to do. The file stays
// for people to read; a valid signature stays, too.
func TestDamagedSidecarThatNobodyHas(t *testing.T) {
	d, _, v, public := twoStores(t)
	path := d.sidecar(v, provenanceSuffix)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	repair := Inspection{Keys: []string{public}, Repair: true}
	flipped(t, path, good, len(good)/2, func() {
		r, err := d.Inspect(t.Context(), repair)
		if err != nil || len(r.Problems) != 1 || r.Versions != 1 || !strings.Contains(fmt.Sprint(r.Problems), path) ||
			!strings.Contains(fmt.Sprint(r.Problems), "image pull") {
			t.Errorf("%+v, %v", r, err)
		}
	})
	path = d.sidecar(v, signatureSuffix)
	if good, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(good)
	bad[bytes.IndexByte(good, '\n')-1] ^= 1 // its first line is a comment that nobody signed
	if err := os.WriteFile(path, bad, 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := d.Inspect(t.Context(), repair); err != nil || len(r.Problems) > 0 || len(r.Fixed) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := d.Check(t.Context(), []string{public}, nil); err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestVersionWithoutSums: a version by an older release has no sums. That is no fault, and a repair writes them.
func TestVersionWithoutSums(t *testing.T) {
	d, _, v, public := twoStores(t)
	if err := os.Remove(d.sidecar(v, sumsSuffix)); err != nil {
		t.Fatal(err)
	}
	for _, repair := range []bool{false, true} {
		r, err := d.Inspect(t.Context(), Inspection{Keys: []string{public}, Repair: repair})
		if err != nil || len(r.Problems)+len(r.Fixed) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if s, err := d.sumsOf(v); err != nil || len(s) != 3 {
		t.Errorf("%v, %v", s, err)
	}
}
