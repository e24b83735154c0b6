package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/httpapi"
	"pando/internal/registry"
)

// credential returns what stands behind a scheme in the Authorization header, "" when it is another scheme.
func credential(r *http.Request, scheme string) string {
	got, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(got, scheme) {
		return ""
	}
	return strings.TrimSpace(value)
}

// touchEvery is how exact a token's last use is known: noting each one would write at every request.
const touchEvery = time.Minute

// operatorOnly lets a request through that carries a valid operator's token.
func (s *Server) operatorOnly(h httpapi.Handler) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		secret := credential(r, "Bearer")
		if parsed, _, err := api.ParseToken(secret); err == nil {
			secret = parsed // a program that knows nothing of our tokens sends what `pando token create` printed
		}
		token, err := s.validToken(r.Context(), registry.HashSecret(secret))
		if err != nil {
			if from := httpapi.RemoteHost(r); api.IsCode(err, api.Unauthorized) && !s.logins.may(s.now(), "token from "+from) {
				return api.NewError(api.TooMany, "too many tokens that are not valid", "wait a minute and try again")
			}
			return err
		}
		p := httpapi.Caller{Kind: "token", Name: token.Name, Role: token.Role, Groups: token.Groups}
		if err := s.rated(r, p); err != nil {
			return err
		}
		return h(w, r.WithContext(httpapi.WithCaller(r.Context(), p)))
	}
}

// validToken is the token whose secret has this digest, and notes that it was used.
func (s *Server) validToken(ctx context.Context, hash registry.Hash) (registry.Token, error) {
	var token registry.Token
	err := s.registry.View(ctx, func(tx *registry.Tx) (err error) {
		token, err = tx.TokenByHash(hash)
		return err
	})
	now := s.now()
	if errors.Is(err, registry.ErrNotFound) || err == nil && !token.Expires.IsZero() && !now.Before(token.Expires) {
		return token, api.NewError(
			api.Unauthorized,
			"no valid token",
			"make one on the server with `pando token create NAME` and put it into PANDO_TOKEN",
		)
	}
	if err == nil && now.Sub(token.Used) > touchEvery {
		err = s.registry.Update(ctx, func(tx *registry.Tx) error { return tx.TouchToken(token.Name, now) })
	}
	return token, err
}
