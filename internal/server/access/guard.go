package access

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/httpapi"
	"pando/internal/openid"
	"pando/internal/registry"
)

// Config is what a Guard needs.
type Config struct {
	Registry *registry.Registry
	Key      ed25519.PublicKey // of the server; new tokens carry it, so that clients can pin it
	Provider *openid.Provider  // nil: people have passwords or tokens only
	Rate     int               // requests a second of each caller; 0: DefaultRate, negative: no limit
	Refused  func(kind string) // counts requests above the rate
	Now      func() time.Time
	Log      *slog.Logger
}

// Guard identifies the caller of a request and decides what the caller may do.
type Guard struct {
	registry *registry.Registry
	key      ed25519.PublicKey
	provider *openid.Provider // nil: none
	attempts *attempts
	failures failures
	rates    *rates
	streams  httpapi.Streams
	now      func() time.Time
	log      *slog.Logger
}

// New returns a Guard.
func New(c Config) *Guard {
	return &Guard{registry: c.Registry, key: c.Key, provider: c.Provider, attempts: newAttempts(),
		failures: failures{of: map[string]*failure{}},
		rates:    newRates(c.Rate, c.Refused), now: c.Now, log: c.Log}
}

// Protect registers routes of the operator's API. It wraps each in auth (TokenOnly on the control port, nothing on the
// unix socket), then in the audit log if the route changes something, then in the checks of role and groups.
func (g *Guard) Protect(m *httpapi.Mux, routes []httpapi.Route, auth func(httpapi.Handler) httpapi.Handler) {
	reach := Reaches()
	for _, r := range routes {
		around := []func(httpapi.Handler) httpapi.Handler{auth}
		if IsChange(r.Method, r.Path) {
			around = append(around, g.audited)
		}
		if strings.HasSuffix(r.Path, "/stream") {
			around = append(around, g.fewStreams)
		}
		route := r.Method + " " + r.Path
		m.Route(route, r.Handle, append(around, takes(RoleFor(r.Method, r.Path)), confined(reach[route]))...)
	}
}

// fewStreams limits the streams of each caller. Callers on the unix socket have no limit.
func (g *Guard) fewStreams(h httpapi.Handler) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		p := httpapi.CallerOf(r.Context())
		if p.Kind == "" {
			return h(w, r)
		}
		if !g.streams.Begin(p.String()) {
			return api.NewError(api.TooMany, fmt.Sprintf("%s has %d streams already", p, httpapi.MaxStreams),
				"end some of them")
		}
		defer g.streams.End(p.String())
		return h(w, r)
	}
}

// touchEvery is the precision at which a token's last use is recorded: a write at each request would be too many.
const touchEvery = time.Minute

// TokenOnly lets only requests with a valid token through, within the caller's rate.
func (g *Guard) TokenOnly(h httpapi.Handler) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		secret := httpapi.Credential(r, "Bearer")
		if parsed, _, err := api.ParseToken(secret); err == nil {
			secret = parsed // a generic HTTP client sends all that `pando token create` printed
		}
		token, err := g.validToken(r.Context(), registry.HashSecret(secret))
		if err != nil {
			if from := httpapi.RemoteHost(r); api.IsCode(err, api.Unauthorized) &&
				!g.attempts.may(g.now(), "token from "+from) {
				return api.NewError(api.TooMany, "too many tokens that are not valid", "wait a minute and try again")
			}
			return err
		}
		p := httpapi.Caller{Kind: "token", Name: token.Name, Role: token.Role, Groups: token.Groups}
		if err := g.rated(r, p); err != nil {
			return err
		}
		return h(w, r.WithContext(httpapi.WithCaller(r.Context(), p)))
	}
}

// validToken returns the token whose secret has this digest, and records its use.
func (g *Guard) validToken(ctx context.Context, hash registry.Hash) (registry.Token, error) {
	var token registry.Token
	err := g.registry.View(ctx, func(tx *registry.Tx) (err error) {
		token, err = tx.TokenByHash(hash)
		return err
	})
	now := g.now()
	if errors.Is(err, registry.ErrNotFound) || err == nil && !token.Expires.IsZero() && !now.Before(token.Expires) {
		return token, api.NewError(
			api.Unauthorized,
			"no valid token",
			"make one on the server with `pando token create NAME` and put it into PANDO_TOKEN",
		)
	}
	if err == nil && now.Sub(token.Used) > touchEvery {
		err = unlessFull(g.registry.UpdateReserved(ctx,
			func(tx *registry.Tx) error { return tx.TouchToken(token.Name, now) }))
	}
	return token, err
}
