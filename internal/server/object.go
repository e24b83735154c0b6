package server

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"pando/internal/bootlog"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/server/boots"
	"pando/internal/sockopt"
	"pando/internal/trace"
)

// forEver is the caching of what is named by its digest.
const forEver = "public, max-age=31536000, immutable"

// serveObject answers GET and HEAD /o/<64 hex>, with ranges.
func (s *Server) serveObject(w http.ResponseWriter, r *http.Request) error {
	id, err := objectID(r.PathValue("id"))
	if err != nil {
		return err
	}
	c := s.boots.At(httpapi.RemoteAddr(r))
	kernel := c != nil && r.Method == http.MethodGet && isKernel(c, id)
	again := r.Header.Get("Cache-Control") != "" // wrong bytes came, or none
	if again {
		s.store.Refresh(id)
	}
	if !kernel && !again {
		if sent, err := s.sendElsewhere(w, r, id); sent || err != nil {
			return err
		}
	}
	f, err := s.store.Open(id)
	if err != nil {
		return err
	}
	defer f.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Cache-Control", forEver)
	h.Set("ETag", `"`+id.Name()+`"`)
	if kernel {
		return s.loader.SendK(w, r, c, trace.Kernel, f)
	}
	size, ok := s.store.Stat(id)
	if ok && r.Method == http.MethodGet && !s.swarm.Admit(r.Context(), httpapi.RemoteAddr(r), id, size) {
		return nil // it asks no more
	}
	if r.Method != http.MethodGet {
		http.ServeContent(w, r, "", time.Time{}, f)
		return nil
	}
	defer s.uploads.Upload(r.Context(), size)()
	http.ServeContent(w, r, "", time.Time{}, f)
	s.swarm.Sent(httpapi.RemoteAddr(r), id)
	if http.NewResponseController(w).Flush() == nil {
		sockopt.Drain(r.Context(), boots.UploadTime)
	}
	return nil
}

// objectID takes the one spelling that a file in the store has.
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

// isKernel reports whether an object is the kernel that the machine's script names, and is not on its way already.
func isKernel(c *bootlog.Entry, id chunk.ID) bool {
	c.Lock()
	defer c.Unlock()
	return c.Kernel == id.Name()
}

// serveManifest answers GET /m/<64 hex> with a manifest's exact bytes, and /m/<64 hex>.minisig with their signature.
func (s *Server) serveManifest(w http.ResponseWriter, r *http.Request) error {
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
	sockopt.LetMessagesPass(r.Context()) // forty manifests at a time are in the way of answers
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

// sendGzip sends a small text in a third of its bytes: in a storm, each node takes the manifest from the server,
// and all at once.
func sendGzip(w http.ResponseWriter, text []byte) error {
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, err := z.Write(text)
	return errors.Join(err, z.Close())
}
