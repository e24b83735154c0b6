package objects

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/store"
)

// TestAddObjectsCutOff: an upload that ends too early, or announces more than it may, adds nothing.
func TestAddObjectsCutOff(t *testing.T) {
	dir, err := store.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := &API{store: dir}
	for _, body := range []string{"\x00\x00", "\x00\x00\x00\x05abc", "\x00\x00\x00\x01a\xff\xff\xff\xffb"} {
		w := &discarded{header: http.Header{}}
		r, err := http.NewRequestWithContext(t.Context(), "POST", "/v1/store/objects", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var refusal *api.Error
		if err := a.addObjects(w, r); !errors.As(err, &refusal) || refusal.Code != api.BadRequest {
			t.Errorf("%q: %v", body, err)
		}
	}
	if _, ok := dir.Stat(chunk.Sum([]byte("a"))); ok {
		t.Error("a part of a broken upload was stored")
	}
}

// discarded is a response that nobody reads.
type discarded struct {
	header http.Header
	bytes.Buffer
}

func (d *discarded) Header() http.Header { return d.header }
func (d *discarded) WriteHeader(int)     {}
