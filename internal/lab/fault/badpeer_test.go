package fault

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"pando/internal/testkit"
	"testing"
)

// Each kind of bad peer spoils objects in its way, and leaves announcements unchanged.
func TestBadPeer(t *testing.T) {
	want := bytes.Repeat([]byte("piece"), 1000)
	good := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(want)))
		_, _ = w.Write(want)
	})
	for as, check := range map[string]func(got []byte, err error) bool{
		"corrupt": func(got []byte, err error) bool {
			return err == nil && len(got) == len(want) && !bytes.Equal(got, want)
		},
		"short":   func(_ []byte, err error) bool { return err != nil },
		"endless": func(got []byte, err error) bool { return err == nil && len(got) == 10*len(want) },
		"slow":    func(got []byte, err error) bool { return err == nil && bytes.Equal(got, want) },
	} {
		b := &badPeer{as: as, rate: testkit.Gbit}
		srv := httptest.NewServer(b.spoil(good))
		fetch := func(path string) ([]byte, error) {
			resp, err := http.Get(srv.URL + path)
			if err != nil {
				return nil, err
			}
			defer resp.Body.Close()
			return io.ReadAll(io.LimitReader(resp.Body, int64(10*len(want))))
		}
		if got, err := fetch("/o/1"); !check(got, err) {
			t.Errorf("%s: got %d bytes, %v", as, len(got), err)
		}
		if got, err := fetch("/have"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: what is no object was changed (%v)", as, err)
		}
		srv.Close() // waits for all answers
		if all := b.note.Answers; len(all) != 1 || all[0].To.String() != "127.0.0.1" || all[0].Took <= 0 {
			t.Errorf("%s: it notes %+v", as, all)
		}
	}
}

// An answer that the node gave up, because it had the piece from elsewhere, is not noted.
func TestBadPeerNotesWhoWaited(t *testing.T) {
	b := &badPeer{as: "slow", rate: testkit.Mbit}
	begun := make(chan struct{})
	srv := httptest.NewServer(b.spoil(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		_, _ = w.Write(make([]byte, 1<<20))
	})))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/o/1", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-begun; cancel() }()
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close() // without reading it
	}
	srv.Close()
	if len(b.note.Answers) > 0 {
		t.Errorf("it notes %+v", b.note.Answers)
	}
}
