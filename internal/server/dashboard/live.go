package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// The shortest intervals of messages to a browser. A heartbeat (beatEvery) also keeps proxies from closing the stream,
// and shows the server when a browser is gone.
const (
	tilesEvery     = 250 * time.Millisecond
	staleEvery     = time.Second     // for a page about one node or boot
	manyTilesEvery = 3 * time.Second // for a page about all nodes
	beatEvery      = 15 * time.Second
)

// live answers GET /live, a page's stream of server-sent events: "tiles" (changed tiles), "counts" (nodes by mood),
// "stale" (load the live parts again), "journal" (lines), "beat" (heartbeat). A browser that lost the connection goes
// on after the last event's id.
func (d *Dashboard) live(w http.ResponseWriter, r *http.Request) {
	s, _ := r.Context().Value(sessionKey{}).(session)
	viewer := s.Name
	if viewer == "" { // without a login
		viewer, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	if !d.streams.Begin(viewer) {
		http.Error(w, "too many pages are open: close some", http.StatusTooManyRequests)
		return
	}
	defer d.streams.End(viewer)
	q := r.URL.Query()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &stream{w: w, c: http.NewResponseController(w)}
	after := cmp.Or(r.Header.Get("Last-Event-ID"), q.Get("after"))
	out.send("beat", after, stamp(d.Now()))
	if q.Has("fleet") {
		d.liveFleet(r, out, mapQuery(q), d.board.revision(after))
		return
	}
	seq, err := strconv.ParseInt(after, 10, 64)
	if err != nil {
		seq = d.Feed.Last()
	}
	if q.Has("journal") && d.Journals != nil {
		ctx, stop := context.WithCancel(r.Context())
		var wg sync.WaitGroup
		wg.Go(func() { d.liveJournal(ctx, out, q) })
		defer wg.Wait()
		defer stop()
	}
	d.liveEvents(r, out, q, seq)
}

// stream writes server-sent events until that fails.
type stream struct {
	w io.Writer
	c *http.ResponseController

	mu  sync.Mutex
	err error
}

// send returns false if the browser is gone.
func (s *stream) send(event, id, data string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && id != "" {
		_, s.err = fmt.Fprintf(s.w, "id: %s\n", id)
	}
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", event, data)
	}
	if s.err == nil {
		s.err = s.c.Flush()
	}
	return s.err == nil
}

// open reports whether the browser is still connected, as far as is known.
func (s *stream) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil
}

// liveFleet sends the tiles that changed after a revision.
func (d *Dashboard) liveFleet(r *http.Request, out *stream, m mapOf, rev int64) {
	if d.board.look(r.Context()) != nil {
		return // the browser connects again
	}
	all := d.board.since(0)
	shape, colours, counted := all.shape, m.legend(all.tiles), ""
	if rev < shape {
		out.send("stale", d.board.mark(all.rev), "")
		rev = all.rev
	}
	for out.open() {
		s := d.board.since(rev)
		rev = s.rev
		if s.shape > shape {
			shape = s.shape
			out.send("stale", d.board.mark(rev), "")
		} else if patch := m.patch(s.tiles, colours); patch != nil {
			body, err := json.Marshal(patch)
			if err != nil {
				return
			}
			out.send("tiles", d.board.mark(rev), string(body))
		}
		if text := d.counts(m); text != counted {
			counted = text
			out.send("counts", "", text)
		}
		if !waitFor(r, out, s.news) {
			return
		}
	}
}

// counts returns the number of nodes of a map by mood, as JSON.
func (d *Dashboard) counts(m mapOf) string {
	n := noCounts()
	d.board.each(func(t *tile) {
		if m.shows(t) {
			n[t.mood()]++
		}
	})
	body, _ := json.Marshal(n) // strings and numbers always encode
	return string(body)
}

// waitFor waits for news and then a moment longer, so that changes are sent together. It returns false if the browser
// is gone.
func waitFor(r *http.Request, out *stream, news <-chan struct{}) bool {
	beat := time.NewTimer(beatEvery)
	defer beat.Stop()
	select {
	case <-r.Context().Done():
		return false
	case <-beat.C:
		return out.send("beat", "", "")
	case <-news:
	}
	select {
	case <-r.Context().Done():
		return false
	case <-time.After(tilesEvery):
		return true
	}
}

// liveEvents sends "stale" when an event belongs to what a page shows: a node, a boot, or anything.
func (d *Dashboard) liveEvents(r *http.Request, out *stream, q url.Values, after int64) {
	news := d.newsOf(r, q.Get("node"), fleet.BootID(q.Get("boot")), after)
	pause := staleEvery
	if !q.Has("node") && !q.Has("boot") {
		pause = manyTilesEvery
	}
	for out.open() {
		beat := time.NewTimer(beatEvery)
		select {
		case seq, ok := <-news:
			if !ok {
				return // the browser is gone, or the server stops
			}
			out.send("stale", strconv.FormatInt(seq, 10), "")
		case <-beat.C:
			kind := "beat"
			if q.Has("tick") { // the page also changes without events
				kind = "stale"
			}
			out.send(kind, "", "")
		}
		beat.Stop()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(pause):
		}
	}
}

// newsOf returns a channel with the sequence number of the latest event of a node, a boot, or anything.
func (d *Dashboard) newsOf(r *http.Request, node string, boot fleet.BootID, after int64) <-chan int64 {
	news := make(chan int64, 1)
	go func() {
		defer close(news)
		_ = d.Feed.Follow(r.Context(), after, func(e trace.Event) error { // ends with the request
			if node != "" && e.Node != node || boot != "" && e.Boot != boot {
				return nil
			}
			select {
			case <-news: // not read yet: replaced by the newer number
			default:
			}
			news <- e.Seq
			return nil
		})
	}()
	return news
}
