package objects

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

// redirect sends a node to an object in a bucket. The address is for this node alone, so no proxy may cache the answer.
// A request with "no-cache" comes from a node that did not get the object there; it gets the object from this server.
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
