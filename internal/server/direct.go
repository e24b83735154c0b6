package server

import (
	"context"
	"net/http"

	"pando/internal/chunk"
	"pando/internal/httpapi"
)

// Direct is where nodes can read objects past the server: the bucket that the store is kept in.
type Direct interface {
	// NodeURL is the base URL of all objects, which anybody may read; "": there is none.
	NodeURL() string
	// Sign returns a URL at which an object can be read for some minutes; "": there is none.
	Sign(ctx context.Context, id chunk.ID) (string, error)
}

// sendElsewhere redirects a node to an object in a bucket. That is a node's own business, not of what stands
// between: nobody may remember the answer. Who asks with "no-cache" did not get the object there, and gets it from
// here.
func (s *Server) sendElsewhere(w http.ResponseWriter, r *http.Request, id chunk.ID) (sent bool, err error) {
	if s.cfg.Direct == nil || r.Method != http.MethodGet || r.Header.Get("Range") != "" {
		return false, nil
	}
	target, err := s.cfg.Direct.Sign(r.Context(), id)
	if target == "" || err != nil {
		return false, err
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", target)
	w.WriteHeader(http.StatusTemporaryRedirect)
	s.swarm.Sent(httpapi.RemoteAddr(r), id)
	return true, nil
}

// places are the base URLs of objects that nodes shall ask before this server.
func (s *Server) places() []string {
	if s.cfg.Direct == nil {
		return nil
	}
	if u := s.cfg.Direct.NodeURL(); u != "" {
		return []string{u}
	}
	return nil
}
