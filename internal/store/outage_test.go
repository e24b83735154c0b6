package store

import (
	"net/http"
	"testing"

	"pando/internal/chunk"
)

// TestHTTPFailoverRetryTogether tests all layers over real sockets: one server has a damaged object and lacks
// another, the second one is good and then goes down. All objects arrive with the right bytes.
func TestHTTPFailoverRetryTogether(t *testing.T) {
	one, two := []byte("first object"), []byte("second object")
	bad, good := newOrigin(t), newOrigin(t, one, two)
	bad.objects["/o/"+chunk.Sum(one).Name()] = []byte("first objecT")
	o := &observed{}
	f, err := NewFailover(o, bad.source(t), good.source(t))
	if err != nil {
		t.Fatal(err)
	}
	r := NewRetry(f, quiet())
	for _, want := range [][]byte{one, two} {
		v, err := r.Get(t.Context(), chunk.Request{ID: chunk.Sum(want), Size: int64(len(want))})
		if err != nil || string(v.Stored()) != string(want) {
			t.Errorf("%q, %v; want %q", v.Stored(), err, want)
		}
	}
	if len(o.failed) != 2 || o.failed[0] != bad.URL+" wrong" || o.failed[1] != bad.URL+" wrong" {
		t.Errorf("reported %q, want wrong bytes of %s twice", o.failed, bad.URL)
	}
	// The good server starts to fail; the object that the other lacks is waited for until the good one recovers.
	tries := 0
	good.misbehave(func(w http.ResponseWriter, q *http.Request) {
		if tries++; tries == 3 {
			good.handle.Store(nil)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	if v, err := r.Get(t.Context(), chunk.Request{ID: chunk.Sum(two), Size: int64(len(two))}); err != nil ||
		string(v.Stored()) != string(two) {
		t.Errorf("after an outage: %q, %v", v.Stored(), err)
	}
	if o.bytes[bad.URL] != 0 || o.bytes[good.URL] != len(one)+2*len(two) {
		t.Errorf("bytes by source: %v", o.bytes)
	}
}
