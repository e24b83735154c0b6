package ship

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"aead.dev/minisign"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/store"
	"pando/internal/testkit"
)

// pair returns a directory with an image, and an empty one.
func pair(t *testing.T) (from, to *Directory, v fleet.Digest) {
	t.Helper()
	dirs := [2]*Directory{}
	for i := range dirs {
		var err error
		if dirs[i], err = OpenDirectory(filepath.Join(t.TempDir(), "stick"), true); err != nil {
			t.Fatal(err)
		}
	}
	_, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	// 20 MB: some batches
	if v, err = testkit.SmallVersion(t.Context(), dirs[0].store, key, "kernel", 300); err != nil {
		t.Fatal(err)
	}
	if err := dirs[0].rename(v, "lab", []string{"latest"}); err != nil {
		t.Fatal(err)
	}
	return dirs[0], dirs[1], v
}

// pulledOut is a stick that is pulled out after a number of objects.
type pulledOut struct {
	*Directory
	left atomic.Int32
}

var errGone = errors.New("no such device")

func (p *pulledOut) Object(ctx context.Context, id chunk.ID) ([]byte, error) {
	if p.left.Add(-1) < 0 {
		return nil, errGone
	}
	return p.Directory.Object(ctx, id)
}

func TestCopy(t *testing.T) {
	from, to, v := pair(t)
	var shown []int64
	o := Options{From: from, To: to, Ref: "lab", Progress: func(done, _ int64) { shown = append(shown, done) }}
	r, err := Copy(t.Context(), o)
	if err != nil || r.Version != v || r.Sent != r.Objects || r.Moved != r.Bytes || r.Objects < 303 {
		t.Fatalf("%+v, %v", r, err)
	}
	if len(shown) < 3 || shown[len(shown)-1] != r.Moved {
		t.Errorf("progress: %v", shown)
	}
	if r, err = Copy(t.Context(), o); err != nil || r.Sent != 0 || r.Moved != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
	report, err := to.store.Check(t.Context(), nil, nil)
	if err != nil || report.Versions != 1 || len(report.Problems) != 0 || report.Unused != 0 {
		t.Errorf("what arrived: %+v, %v", report, err)
	}
	if got, err := to.Find(t.Context(), "lab:latest"); err != nil || got != v {
		t.Errorf("its name: %s, %v", got, err)
	}
	var missing *api.Error
	if _, err := Copy(t.Context(), Options{From: from, To: to, Ref: "lab:none"}); !errors.As(err, &missing) ||
		missing.Code != api.NotFound {
		t.Errorf("a tag that is not there: %v", err)
	}
	if r, err := Copy(t.Context(), Options{From: from, To: to, Ref: fleet.Ref("other@" + string(v))}); err != nil ||
		len(r.Tags) != 0 {
		t.Errorf("by digest: %+v, %v", r, err)
	}
}

// TestCopyBrokenOff: an interrupted copy never leaves an incomplete version. What arrived is not sent again, and a
// garbage collection in between does not remove it.
func TestCopyBrokenOff(t *testing.T) {
	from, to, v := pair(t)
	sent := 0
	for n := int32(3); ; n += 290 {
		stick := &pulledOut{Directory: from}
		stick.left.Store(n)
		r, err := Copy(t.Context(), Options{From: stick, To: to, Ref: "lab"})
		if err == nil {
			sent = r.Sent
			break
		}
		if !errors.Is(err, errGone) {
			t.Fatal(err)
		}
		if all, err := to.store.Versions(); err != nil || len(all) != 0 {
			t.Fatalf("half a version: %v, %v", all, err)
		}
		unlock, err := to.store.Lock(t.Context(), "collect")
		if err != nil {
			t.Fatal(err)
		}
		_, err = to.store.Sweep(
			t.Context(),
			store.SweepOptions{Hold: func(fleet.Digest) bool { return false }, Before: time.Now().Add(-time.Hour)},
		)
		unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	if sent == 0 || sent > 290 {
		t.Errorf("the last of several tries sent %d objects", sent)
	}
	report, err := to.store.Check(t.Context(), nil, nil)
	if err != nil || report.Versions != 1 || len(report.Problems) != 0 {
		t.Errorf("what arrived of %s: %+v, %v", v, report, err)
	}
}

// TestCopyOfADamagedSource: a wrong byte on the stick is not copied.
func TestCopyOfADamagedSource(t *testing.T) {
	from, to, _ := pair(t)
	path := from.store.ObjectPath(chunk.Sum([]byte("kernel")))
	if err := store.WriteFile(path, []byte("colonel"), 0o644); err != nil {
		t.Fatal(err)
	}
	var wrong *chunk.WrongBytesError
	if _, err := Copy(t.Context(), Options{From: from, To: to, Ref: "lab"}); !errors.As(err, &wrong) {
		t.Errorf("damaged: %v", err)
	}
	if all, err := to.store.Versions(); err != nil || len(all) != 0 {
		t.Errorf("versions: %v, %v", all, err)
	}
}
