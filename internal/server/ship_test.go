package server

import (
	"errors"
	"testing"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/image"
)

// TestPutVersionWantsItsObjects: an incomplete version, or one that another key signed, is refused.
func TestPutVersionWantsItsObjects(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	_, v := s.addRoot(map[string][]byte{"file": program(1, 100_000)})
	kept, err := c.StoredVersion(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	m, err := image.Decode(kept.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := c.Object(t.Context(), m.Kernel.Object)
	if err != nil {
		t.Fatal(err)
	}
	remove(t, s.store.ObjectPath(m.Kernel.Object))
	need := api.ObjectList{
		Objects: []api.ObjectSize{{ID: m.Kernel.Object, Size: m.Kernel.Size}, {ID: m.Root.Index, Size: 1}},
	}
	missing, err := c.MissingObjects(t.Context(), need)
	if err != nil || len(missing.Objects) != 2 { // the other object has a wrong size
		t.Errorf("missing: %v, %v", missing, err)
	}
	var refusal *api.Error
	if err := c.PutVersion(t.Context(), api.VersionPut{StoredVersion: kept}); !errors.As(err, &refusal) ||
		refusal.Code != api.Conflict {
		t.Errorf("without its kernel: %v", err)
	}
	if err := c.PutVersion(t.Context(), api.VersionPut{StoredVersion: kept, DryRun: true}); err != nil {
		t.Errorf("its signature: %v", err)
	}
	if err := c.AddObjects(t.Context(), [][]byte{kernel, []byte("more")}); err != nil {
		t.Fatal(err)
	}
	if err := c.PutVersion(t.Context(), api.VersionPut{StoredVersion: kept}); err != nil {
		t.Errorf("whole: %v", err)
	}
	if _, ok := s.store.Stat(chunk.Sum([]byte("more"))); !ok {
		t.Error("an object that was added is not there")
	}
	kept.Signature = []byte("untrusted comment: x\n")
	if err := c.PutVersion(t.Context(), api.VersionPut{StoredVersion: kept}); !errors.As(err, &refusal) ||
		refusal.Code != api.BadRequest ||
		refusal.Hint == "" {
		t.Errorf("another signature: %v", err)
	}
}
