package peer

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"pando/internal/chunk"
	"pando/internal/sockopt"
	"pando/internal/swarm"
)

// serveManifest answers GET /m/<digest> and GET /m/<digest>.minisig with the manifest and signature that this node
// booted with.
func (n *Node) serveManifest(w http.ResponseWriter, r *http.Request) {
	if n.refused(w, swarm.NodeAddr(r.RemoteAddr, 1)) {
		return
	}
	sum := sha256.Sum256(n.o.Bootstrap.Manifest)
	name, data := hex.EncodeToString(sum[:]), n.o.Bootstrap.Manifest
	switch r.PathValue("name") {
	case name:
	case name + ".minisig":
		data = n.o.Bootstrap.Signature
	default:
		data = nil
	}
	if len(data) == 0 {
		http.NotFound(w, r)
		return
	}
	n.upload(w, r, data, n.slots.For(true, false, int64(len(data))))
}

// upload sends bytes to a peer, if one of the upload slots is free.
func (n *Node) upload(w http.ResponseWriter, r *http.Request, data []byte, places *swarm.Uploads) {
	n.mu.Lock()
	admitted := (places != &n.slots.Pieces || !n.scheduler.Ahead()) && places.Start()
	n.mu.Unlock()
	if !admitted {
		refuse(w)
		return
	}
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		places.Done()
	}()
	end := time.Now().Add(n.uploadTime + 2*n.o.Slow.AtLeast(0))
	writer := http.NewResponseController(w)
	_ = writer.SetWriteDeadline(end) // not every connection has deadlines
	plain(w)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if places == &n.slots.Pieces {
		defer n.scheduler.Upload(r.Context(), int64(len(data)))()
	} else {
		n.scheduler.UploadSmall(r.Context())
	}
	if _, err := w.Write(data); err == nil && writer.Flush() == nil { // otherwise the peer is gone
		// The wait is bounded, so that a peer that does not read cannot keep the slot.
		sockopt.Drain(r.Context(), time.Until(end))
		n.o.Observer.Uploaded(swarm.NodeAddr(r.RemoteAddr, 1), len(data))
	}
}

// packMap returns the map of the pack, if id is its name.
func (n *Node) packMap(id chunk.ID) (chunk.Verified, bool) {
	return n.o.Bootstrap.Map, id == n.o.Pack && n.o.Bootstrap.Map.ID() == id
}
