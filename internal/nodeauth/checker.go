package nodeauth

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"time"
)

// TokenLife is how long a token is valid after its initramfs was sent.
const TokenLife = 30 * time.Minute

// Checker checks for which boot a node's request may speak.
type Checker struct {
	registry *registry.Registry
	now      func() time.Time
}

// New returns a Checker of the credentials of boots in a registry.
func New(reg *registry.Registry, now func() time.Time) *Checker { return &Checker{reg, now} }

// Reporter returns the boot that a request may speak for. The request must carry that boot's session or, if the boot
// has not registered yet, its token.
func (s *Checker) Reporter(r *http.Request, boot fleet.BootID) (b registry.Boot, err error) {
	session, token := registry.HashSecret(
		httpapi.Credential(r, "Bearer"),
	), registry.HashSecret(
		httpapi.Credential(r, "Boot"),
	)
	err = s.registry.View(r.Context(), func(tx *registry.Tx) error {
		if !session.IsZero() {
			b, err = tx.BootBySession(session)
			return err
		}
		b, err = tx.Boot(boot)
		return err
	})
	switch {
	case errors.Is(err, registry.ErrNotFound):
	case err != nil:
		return b, err
	case !session.IsZero() && b.ID == boot:
		return b, nil
	case !token.IsZero() && subtle.ConstantTimeCompare(token[:], b.Token[:]) == 1 &&
		s.now().Sub(b.TokenMade) < TokenLife:
		return b, nil
	}
	return b, api.NewError(
		api.Unauthorized,
		"neither session nor token of this boot",
		"a newer boot of the node ends the older one's session",
	)
}

// BySession is like Reporter but accepts only a session. A token was sent in the clear, and whoever gets the assignment
// of the next boot can act as the node.
func (s *Checker) BySession(r *http.Request, boot fleet.BootID) (registry.Boot, error) {
	if httpapi.Credential(r, "Bearer") == "" {
		return registry.Boot{}, api.NewError(api.Unauthorized, "the next boot is given to a session only", "")
	}
	return s.Reporter(r, boot)
}
