package objects

import (
	"context"
	"net/http"

	"pando/internal/chunk"
	"pando/internal/httpapi"
)

// Direct is the bucket that holds the store, where nodes can read objects without this server.
type Direct interface {
	// NodeURL returns the base URL of all objects if anyone may read them, else "".
	NodeURL() string
	// Sign returns a URL at which an object can be read for some minutes; "": there is none.
	Sign(ctx context.Context, id chunk.ID) (string, error)
}

// redirect sends a node to an object in a bucket. The URL is for this node alone, so no proxy may cache the answer. A
// request with "no-cache" comes from a node that could not get the object there; this server sends it.
func (s *Handler) redirect(w http.ResponseWriter, r *http.Request, id chunk.ID) (sent bool, err error) {
	if s.direct == nil || r.Method != http.MethodGet || r.Header.Get("Range") != "" {
		return false, nil
	}
	target, err := s.direct.Sign(r.Context(), id)
	if target == "" || err != nil {
		return false, err
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", target)
	w.WriteHeader(http.StatusTemporaryRedirect)
	s.tracker.Sent(httpapi.RemoteAddr(r), id)
	return true, nil
}
