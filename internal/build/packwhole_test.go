package build

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pando/internal/imagefs"
	"pando/internal/mount"
)

// TestExtendPacks: an extension has a signed boot pack with everything in it, in the order in which a node reads it:
// inodes and directories, then files in the order of a directory walk. Building the extension again keeps its pack.
func TestExtendPacks(t *testing.T) {
	data, first := extensionBase(t)
	opt := extendOptions(t, data, first, "")
	opt.Command, opt.Tree = mount.Command{}, t.TempDir()
	for name, size := range map[string]int{"usr/bin/large": 300_000, "opt/a/z/second": 9000, "opt/a-b/after": 9000,
		"opt/a/first": 5000} {
		path, text := filepath.Join(opt.Tree, name), make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(size), byte(len(name))}).Read(text) // never fails
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(opt.Tree+"/opt/a/z/second", opt.Tree+"/opt/a/z/third"); err != nil {
		t.Fatal(err)
	}
	r, err := Extend(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	checkStore(t, opt.Build.Store, 2)
	records, err := opt.Build.Store.Packs(r.Version)
	if err != nil || len(records) != 1 || records[0].Boots != 0 || records[0].Class != "" {
		t.Fatalf("%+v, %v", records, err)
	}
	p := packOf(t, opt.Build, r, records[0])
	if p.Booted != len(p.Pieces) {
		t.Errorf("%d of %d pieces come at once", p.Booted, len(p.Pieces))
	}
	at, err := imagefs.ReadMap(t.Context(), opt.Build.Store, r.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, e := range p.Extents {
		for b := e.Start; uint64(b) < e.End(); b++ {
			if f, ok := at.At(b); ok && !f.Dir && !slices.Contains(order, f.Path) &&
				filepath.Dir(f.Path) != "usr/lib/extension-release.d" {
				order = append(order, f.Path)
			}
		}
	}
	if len(order) == 4 && order[1] == "opt/a/z/third" { // either name of it
		order[1] = "opt/a/z/second"
	}
	if want := []string{"opt/a/first", "opt/a/z/second", "opt/a-b/after", "usr/bin/large"}; !slices.Equal(order, want) {
		t.Errorf("files come as %q, want %q", order, want)
	}
	raw, err := os.ReadFile(rawOf(t, opt.Build.Store, r.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	in := map[uint32]bool{}
	for _, e := range p.Extents {
		for b := e.Start; uint64(b) < e.End(); b++ {
			in[b] = true
		}
	}
	for off := 0; off < len(raw); off += 4096 {
		if block := raw[off : off+4096]; !in[uint32(off/4096)] &&
			slices.ContainsFunc(block, func(b byte) bool { return b != 0 }) {
			t.Errorf("block %d is not in the pack", off/4096)
		}
	}
}

// TestExtendUnsigned: a version that is signed later, on the machine with the key, gets no pack: nodes would not
// accept it.
func TestExtendUnsigned(t *testing.T) {
	data, first := extensionBase(t)
	opt := extendOptions(t, data, first, "echo x > /usr/x")
	opt.Build.Keys = nil
	r, err := Extend(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	if records, err := opt.Build.Store.Packs(r.Version); err != nil || len(records) != 0 {
		t.Errorf("%+v, %v", records, err)
	}
}
