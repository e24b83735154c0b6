package peer

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"pando/internal/chunk"
	"pando/internal/sockopt"
	"pando/internal/swarm"
)

// Headers of a node's HTTP server.
const (
	headerPort = "Pando-Port" // of the request: the port where the client serves
	headerPack = "Pando-Pack" // of the response: the pack of a bitmap
)

// maxUploadTime bounds an upload, plus twice the announce delay. A client that needs longer is not worth the slot.
const maxUploadTime = time.Minute

// Handler serves peers. GET /o/<id> returns an object, GET /have streams the pieces of this node, and GET /m/<digest>
// returns the manifest. Serve it at NodeOptions.Port, with the usual limits on headers and idle connections.
func (n *Node) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /o/{id}", n.serveObject)
	m.HandleFunc("GET /have", n.serveHave)
	m.HandleFunc("GET /m/{name}", n.serveManifest)
	return sockopt.Messages(m)
}

// Uploads returns the schedule of the node's uploads, for other uploads of its host.
func (n *Node) Uploads() *sockopt.Scheduler { return &n.scheduler }

// refused answers and reports banned clients, and all clients after this node has left.
func (n *Node) refused(w http.ResponseWriter, from netip.AddrPort) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.banned[from.Addr()] {
		http.Error(w, "banned", http.StatusForbidden)
		return true
	}
	if n.closed {
		w.Header().Set("Connection", "close")
		http.Error(w, "this node goes down", http.StatusServiceUnavailable)
	}
	return n.closed
}

func (n *Node) serveObject(w http.ResponseWriter, r *http.Request) {
	if n.refused(w, swarm.NodeAddr(r.RemoteAddr, 1)) {
		return
	}
	id, err := n.named(r.PathValue("id"))
	v, ok := n.heldFor(r, id)
	if err != nil || !ok {
		http.NotFound(w, r)
		return
	}
	_, piece := n.index[id]
	n.upload(w, r, v.Stored(), n.slots.For(id == n.o.Pack, piece, int64(len(v.Stored()))))
}

// named returns the object of a name, which may be the short name of a piece. Peers send two or three requests for each
// piece, and short names save a thousandth of a slow link.
func (n *Node) named(name string) (chunk.ID, error) {
	if id, err := chunk.ParseID(name); err == nil {
		return id, nil
	}
	b, err := chunk.ParseShortID(name)
	if err != nil {
		return chunk.ID{}, err
	}
	for i := range n.o.Pieces {
		if id := n.o.Pieces[i].ID; id.Short() == b {
			return id, nil
		}
	}
	return chunk.ID{}, fmt.Errorf("no piece begins with %s", b)
}

// plain leaves optional headers out of a response.
func plain(w http.ResponseWriter) { w.Header()["Content-Type"], w.Header()["Date"] = nil, nil }

// refuse answers that this node is busy, in as few bytes as possible: this happens two or three times for each piece.
func refuse(w http.ResponseWriter) {
	plain(w)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// held returns an object that this node has in memory.
func (n *Node) held(id chunk.ID) (chunk.Verified, bool) {
	if i, ok := n.index[id]; ok {
		v, held, _ := n.o.Store.Piece(i)
		return v, held
	}
	if v, ok := n.packMap(id); ok {
		return v, true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.demand.get(id)
}

// serveHave streams the pieces of this node: a bitmap, then two bytes for each piece that comes or goes. The client
// becomes a peer, and is watched in return.
func (n *Node) serveHave(w http.ResponseWriter, r *http.Request) {
	port, err := strconv.ParseUint(r.Header.Get(headerPort), 10, 16)
	from := swarm.NodeAddr(r.RemoteAddr, uint16(port))
	if n.refused(w, swarm.NodeAddr(r.RemoteAddr, 1)) {
		return
	}
	n.mu.Lock()
	full := n.watched >= swarm.MaxWatchers
	if !full {
		n.watched++
	}
	n.mu.Unlock()
	if full {
		http.Error(w, "too many watchers", http.StatusServiceUnavailable)
		return
	}
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.watched--
	}()
	if err == nil && from.IsValid() {
		n.post(r.Context(), func(now time.Duration) { n.addPeers(now, from) })
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(headerPack, n.o.Pack.String())
	n.streamHave(w, r, from)
}

// streamHave sends the stream to one watcher. After the bitmap it leaves out pieces that the watcher has itself.
func (n *Node) streamHave(w http.ResponseWriter, r *http.Request, to netip.AddrPort) {
	writer := http.NewResponseController(w)
	beats := time.NewTicker(beatEvery)
	defer beats.Stop()
	told, changed, closed := n.having(netip.AddrPort{}, nil)
	b := []byte(told)
	for !closed {
		_ = writer.SetWriteDeadline(time.Now().Add(beatLost)) // not every connection has deadlines
		if len(b) > 0 {
			if _, err := w.Write(b); err != nil || writer.Flush() != nil {
				return
			}
			beats.Reset(beatEvery) // news is as good as a beat
		}
		b = nil
		select {
		case <-changed:
		case <-beats.C:
			b = binary.LittleEndian.AppendUint16(b, beat)
		case <-r.Context().Done():
			return
		}
		before := told
		told, changed, closed = n.having(to, told)
		b = appendChanges(b, before, told)
	}
}

// having returns the pieces to tell a peer: those of this node, without those that the peer has and was not told yet.
// changed is closed when the pieces change. closed tells whether this node has left.
func (n *Node) having(
	peer netip.AddrPort,
	told swarm.Bitmap,
) (have swarm.Bitmap, changed <-chan struct{}, closed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	have = slices.Clone(n.have)
	for i, has := range n.peerHave[peer] {
		if told != nil {
			have[i] &= ^has | told[i]
		}
	}
	return have, n.changed, n.closed
}

// appendChanges appends the differences of two bitmaps, two bytes each.
func appendChanges(b []byte, from, to swarm.Bitmap) []byte {
	for i := range to {
		for changed := from[i] ^ to[i]; changed != 0; changed &= changed - 1 {
			p := i*8 + bits.TrailingZeros8(changed)
			if !to.Has(p) {
				p |= gone
			}
			b = binary.LittleEndian.AppendUint16(b, uint16(p))
		}
	}
	return b
}
