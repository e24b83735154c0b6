package objects

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/sockopt"
	"pando/internal/store"
	"pando/internal/swarm/tracker"
)

// sendTime is how long the last bytes of an answer may take to reach the node.
const sendTime = time.Minute

// forEver is the Cache-Control of answers whose URL contains their digest.
const forEver = "public, max-age=31536000, immutable"

// Handler sends objects and manifests to nodes.
type Handler struct {
	store   *store.Dir
	tracker *tracker.Server
	uploads *sockopt.Scheduler
	direct  Direct // nil: nodes get objects from this server only
	kernels Kernels
}

// Kernels knows which machines load their kernel now.
type Kernels interface {
	// SendKernel returns a function that sends the kernel to a machine and records that as a stage of its boot. It
	// returns nil if the object is not the kernel of the machine's boot script, or if it is being sent already.
	SendKernel(machine netip.Addr, id chunk.ID) func(http.ResponseWriter, *http.Request, io.ReadSeeker) error
	// OpenInitramfs opens an initramfs that many boots share, which is not in the store; nil: the object is none.
	OpenInitramfs(id chunk.ID) (io.ReadSeekCloser, error)
}

// HandlerOptions are what a Handler needs.
type HandlerOptions struct {
	Store   *store.Dir
	Tracker *tracker.Server
	Uploads *sockopt.Scheduler // schedules transfers, the oldest first
	Direct  Direct             // nil: nodes get objects from this server only
	Kernels Kernels
}

// NewHandler returns a Handler.
func NewHandler(o HandlerOptions) *Handler {
	return &Handler{store: o.Store, tracker: o.Tracker, uploads: o.Uploads, direct: o.Direct, kernels: o.Kernels}
}

// ServeObject answers GET and HEAD /o/<64 hex>, with ranges.
func (s *Handler) ServeObject(w http.ResponseWriter, r *http.Request) error {
	id, err := objectID(r.PathValue("id"))
	if err != nil {
		return err
	}
	var kernel func(http.ResponseWriter, *http.Request, io.ReadSeeker) error
	if r.Method == http.MethodGet {
		kernel = s.kernels.SendKernel(httpapi.RemoteAddr(r), id)
	}
	if f, err := s.kernels.OpenInitramfs(id); f != nil || err != nil {
		return s.sendInitramfs(w, r, id, f, kernel, err)
	}
	again := r.Header.Get("Cache-Control") != "" // the node received wrong bytes, or none
	if again {
		s.store.Refresh(id)
	}
	if kernel == nil && !again {
		if sent, err := s.redirect(w, r, id); sent || err != nil {
			return err
		}
	}
	// Firmware runs a kernel without a check of its bytes. An object that is larger than any chunk is checked whoever
	// requests it: behind a router the machine may have another address here.
	if size, ok := s.store.Stat(id); kernel != nil || ok && size > chunk.MaxRaw {
		if err := s.store.CheckFile(id); err != nil {
			return err
		}
	}
	f, err := s.store.Open(id)
	if err != nil {
		return err
	}
	defer f.Close()
	nameObject(w, id)
	if kernel != nil {
		return kernel(w, r, f)
	}
	size, ok := s.store.Stat(id)
	if ok && r.Method == http.MethodGet && !s.tracker.Admit(r.Context(), httpapi.RemoteAddr(r), id, size) {
		return nil // the node has given up
	}
	if r.Method != http.MethodGet {
		http.ServeContent(w, r, "", time.Time{}, f)
		return nil
	}
	defer s.uploads.Upload(r.Context(), size)()
	http.ServeContent(w, r, "", time.Time{}, f)
	s.tracker.Sent(httpapi.RemoteAddr(r), id)
	if http.NewResponseController(w).Flush() == nil {
		sockopt.Drain(r.Context(), sendTime)
	}
	return nil
}

// sendInitramfs sends an initramfs that many boots share; kernel as in Kernels.
func (s *Handler) sendInitramfs(
	w http.ResponseWriter,
	r *http.Request,
	id chunk.ID,
	f io.ReadSeekCloser,
	kernel func(http.ResponseWriter, *http.Request, io.ReadSeeker) error,
	err error,
) error {
	if err != nil {
		return err
	}
	defer f.Close()
	nameObject(w, id)
	if kernel != nil {
		return kernel(w, r, f)
	}
	http.ServeContent(w, r, "", time.Time{}, f)
	return nil
}

// nameObject sets the headers of an object.
func nameObject(w http.ResponseWriter, id chunk.ID) {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Cache-Control", forEver)
	h.Set("ETag", `"`+id.Name()+`"`)
}

// objectID parses an object's ID; only the lower-case spelling of the file name is valid.
func objectID(name string) (chunk.ID, error) {
	if len(name) != 64 {
		return chunk.ID{}, fs.ErrNotExist
	}
	id, err := chunk.ParseID(name)
	if err != nil {
		return id, fs.ErrNotExist
	}
	return id, nil
}

// ServeManifest answers GET /m/<64 hex> with a manifest's exact bytes, and /m/<64 hex>.minisig with their signature.
func (s *Handler) ServeManifest(w http.ResponseWriter, r *http.Request) error {
	name, signature := strings.CutSuffix(r.PathValue("name"), ".minisig")
	digest, err := fleet.ParseDigest("sha256:" + name)
	if err != nil {
		return fs.ErrNotExist
	}
	read, kind := s.store.ManifestBytes, "application/json"
	if signature {
		read, kind = s.store.SignatureBytes, "text/plain; charset=utf-8"
	}
	data, err := read(digest)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	sockopt.LetMessagesPass(r.Context()) // forty manifests at a time would delay the tracker's answers
	if !signature {                      // a version may be signed again with another key
		w.Header().Set("ETag", `"`+r.PathValue("name")+`"`)
		w.Header().Set("Cache-Control", forEver)
		w.Header().Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			return sendGzip(w, data)
		}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	return nil
}

// sendGzip sends a text gzipped, in about a third of its bytes: in a boot storm all nodes load the manifest from the
// server at once.
func sendGzip(w http.ResponseWriter, text []byte) error {
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, err := z.Write(text)
	return errors.Join(err, z.Close())
}
