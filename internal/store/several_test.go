package store

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/chunk"
)

// three are objects that are asked for together.
var three = [][]byte{[]byte("one"), []byte("second"), []byte("the third one")}

func namesOf(objects [][]byte) (rs []Request) {
	for _, b := range objects {
		rs = append(rs, Request{ID: chunk.Sum(b), Size: int64(len(b)), Patience: time.Second})
	}
	return rs
}

// answers is a server of what the handler sends.
func answers(t *testing.T, h http.HandlerFunc) *HTTP {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c := NewClient(2, nil)
	t.Cleanup(c.CloseIdleConnections)
	return &HTTP{URL: s.URL, Client: c}
}

func sends(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "one", code) }
}

// Whatever a server answers, what comes is what was asked for, in order, and of a failure it is told which object
// did not come.
func TestGetSeveral(t *testing.T) {
	for name, x := range map[string]struct {
		answer http.HandlerFunc
		came   int
		failed string // as it is told; "": it is not
		singly bool   // it is not asked for several again
	}{
		"all":                 {sends("onesecondthe third one"), 3, "", false},
		"the first ones":      {sends("onesecond"), 2, "", false},
		"wrong bytes":         {sends("onesEcondthe third one"), 1, "wrong", false},
		"part of an object":   {sends("onesec"), 0, "", true},
		"nothing":             {sends(""), 0, "", true},
		"more than there was": {sends("onesecondthe third one."), 0, "", true},
		"of no length": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "one")
		}, 0, "", true},
		"busy":           {status(http.StatusServiceUnavailable), 0, "", false},
		"no such path":   {status(http.StatusNotFound), 0, "", true},
		"no such method": {status(http.StatusMethodNotAllowed), 0, "", true},
		"it breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "22")
			_, _ = io.WriteString(w, "onesec")
		}, 1, "failed", false},
	} {
		o, asked := &observed{}, 0
		h := answers(t, func(w http.ResponseWriter, r *http.Request) {
			asked++
			if b, _ := io.ReadAll(r.Body); r.Method != "POST" || r.URL.Path != "/o" ||
				string(
					b,
				) != strings.Join(
					[]string{namesOf(three)[0].ID.Name(), namesOf(three)[1].ID.Name(), namesOf(three)[2].ID.Name(), ""},
					"\n",
				) {
				t.Errorf("%s: asked with %s %s: %q", name, r.Method, r.URL, b)
			}
			x.answer(w, r)
		})
		f, err := NewFailover(o, h)
		if err != nil {
			t.Fatal(err)
		}
		r := NewRetry(f, quiet())
		var came []string
		get := func() {
			r.GetSeveral(
				t.Context(),
				namesOf(three),
				func(i int, v chunk.Verified) { came = append(came, fmt.Sprint(i, string(v.Stored()))) },
			)
		}
		get()
		var want []string
		for i, b := range three[:x.came] {
			want = append(want, fmt.Sprint(i, string(b)))
		}
		if !slices.Equal(came, want) {
			t.Errorf("%s: %q came, want %q", name, came, want)
		}
		if told := strings.Join(o.failed, ","); told != strings.TrimSpace(h.URL+" "+x.failed) &&
			(told != "" || x.failed != "") {
			t.Errorf("%s: told %q, want %q", name, told, x.failed)
		}
		if get(); asked == 1 != x.singly {
			t.Errorf("%s: asked %d times, want once: %v", name, asked, x.singly)
		}
	}
}

// Of a bucket, and of any source that is no server, objects are asked for singly.
func TestGetSeveralOfNoServer(t *testing.T) {
	h := answers(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) })
	h.URL += "/objects"
	for _, s := range []Source{h, &fake{name: "disk"}} {
		o := &observed{}
		f, err := NewFailover(o, s)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			f.GetSeveral(t.Context(), namesOf(three), func(int, chunk.Verified) { t.Error("an object came") })
		}
		if len(o.failed) > 0 {
			t.Errorf("told %q", o.failed)
		}
	}
}

// severalFake is a source that fails.
type severalFake struct {
	fake
	err error
}

func (f *severalFake) GetSeveral(context.Context, []Request, func(int, chunk.Verified)) error {
	return f.err
}

// What did not come because a server fails is not asked for there first.
func TestGetSeveralTurnsToTheNext(t *testing.T) {
	a, b, o := &severalFake{fake{name: "a"}, errDown}, &fake{name: "b"}, &observed{}
	f, err := NewFailover(o, a, b)
	if err != nil {
		t.Fatal(err)
	}
	f.GetSeveral(t.Context(), namesOf(three), func(int, chunk.Verified) {})
	if _, err := f.Get(t.Context(), Request{ID: chunk.Sum(theObject)}); err != nil || len(a.seen) > 0 ||
		len(b.seen) != 1 {
		t.Errorf("%v, a was asked %d times, b %d", err, len(a.seen), len(b.seen))
	}
	if !slices.Equal(o.failed, []string{"a failed"}) {
		t.Errorf("told %q", o.failed)
	}
}

// A server that says nothing any more is given up after its patience, and who stops to wait is not told of as a
// failure.
func TestGetSeveralPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &HTTP{URL: "http://10.0.0.1", Client: &http.Client{Transport: silent{}}}
		begin := time.Now()
		err := h.GetSeveral(t.Context(), namesOf(three), nil)
		if took := time.Since(begin); err == nil || !strings.Contains(err.Error(), "no byte for 1s") ||
			took != time.Second {
			t.Errorf("%v after %s", err, took)
		}
		o := &observed{}
		f, err := NewFailover(o, h)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if f.GetSeveral(ctx, namesOf(three), nil); len(o.failed) > 0 {
			t.Errorf("told %q", o.failed)
		}
	})
}

// silent is a network in which nothing is answered.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}
