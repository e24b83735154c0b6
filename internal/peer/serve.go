package peer

import (
	"encoding/binary"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"pando/internal/chunk"
)

// uploadTime is how long an upload may take; one who takes longer is not worth the place.
const uploadTime = time.Minute

// Handler answers peers: GET /o/<id> with an object, GET /have with the pieces that this node has and then each one that
// comes. Serve it where o.Port says, with limits on headers and idle connections as for any server.
func (n *Node) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /o/{id}", n.serveObject)
	m.HandleFunc("GET /have", n.serveHave)
	return m
}

// refused answers those that are banned.
func (n *Node) refused(w http.ResponseWriter, from netip.AddrPort) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.banned[from.Addr()] {
		http.Error(w, "banned", http.StatusForbidden)
		return true
	}
	return false
}

func (n *Node) serveObject(w http.ResponseWriter, r *http.Request) {
	if n.refused(w, asker(r, 1)) {
		return
	}
	id, err := chunk.ParseID(r.PathValue("id"))
	v, ok := n.held(id)
	if err != nil || !ok {
		http.NotFound(w, r)
		return
	}
	n.mu.Lock()
	admitted := n.uploads.Start()
	n.mu.Unlock()
	if !admitted {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.uploads.Done()
	}()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(uploadTime)) // not every connection has deadlines
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(v.Stored())))
	_, _ = w.Write(v.Stored()) // the peer is gone when this fails
}

// held is an object that this node has in memory.
func (n *Node) held(id chunk.ID) (chunk.Verified, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i, ok := n.index[id]; ok {
		return n.pieces[i], n.pieces[i].Stored() != nil
	}
	return n.loose.get(id)
}

// serveHave streams what this node has: a bitmap, then two bytes for each piece that comes. Who watches is a peer too,
// and is watched in return.
func (n *Node) serveHave(w http.ResponseWriter, r *http.Request) {
	port, err := strconv.ParseUint(r.Header.Get(headerPort), 10, 16)
	from := asker(r, uint16(port))
	if n.refused(w, asker(r, 1)) {
		return
	}
	n.mu.Lock()
	full := n.watched >= MaxWatchers
	if !full {
		n.watched++
	}
	n.mu.Unlock()
	if full {
		http.Error(w, "enough watchers", http.StatusServiceUnavailable)
		return
	}
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.watched--
	}()
	if err == nil && from.IsValid() {
		n.post(r.Context(), func(now time.Duration) { n.meet(now, from) })
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(headerPack, n.o.Pack.String())
	n.streamHave(w, r)
}

func (n *Node) streamHave(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	beats := time.NewTicker(beatEvery)
	defer beats.Stop()
	n.mu.Lock()
	b := []byte(NewBitmap(len(n.o.Pieces)))
	for _, p := range n.order {
		Bitmap(b).Set(p)
	}
	told, changed := len(n.order), n.changed
	n.mu.Unlock()
	for {
		_ = control.SetWriteDeadline(time.Now().Add(beatLost)) // not every connection has deadlines
		if _, err := w.Write(b); err != nil || control.Flush() != nil {
			return
		}
		b = b[:0]
		select {
		case <-changed:
		case <-beats.C:
			b = binary.LittleEndian.AppendUint16(b, beat)
		case <-r.Context().Done():
			return
		}
		n.mu.Lock()
		for _, p := range n.order[told:] {
			b = binary.LittleEndian.AppendUint16(b, uint16(p))
		}
		told, changed = len(n.order), n.changed
		n.mu.Unlock()
	}
}
