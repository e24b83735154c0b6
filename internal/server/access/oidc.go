package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"pando/internal/api"
	"pando/internal/openid"
	"pando/internal/registry"
)

// OIDC logs people in through an OpenID Connect provider.
type OIDC struct{ g *Guard }

// OIDC returns the login through the OpenID provider, nil if none is configured.
func (g *Guard) OIDC() *OIDC {
	if g.provider == nil {
		return nil
	}
	return &OIDC{g}
}

// Host is the name of the provider on the login page.
func (e *OIDC) Host() string { return e.g.provider.Host() }

// Begin returns the address at the provider where a browser logs in.
func (e *OIDC) Begin(ctx context.Context, a openid.Attempt) (string, error) {
	to, err := e.g.provider.Begin(ctx, a)
	return to, e.explained(err)
}

// Finish exchanges the code that a browser brings back from the provider, and returns the digest for a session.
func (e *OIDC) Finish(
	ctx context.Context,
	from, code string,
	a openid.Attempt,
) (digest [sha256.Size]byte, err error) {
	who := openid.Person{Name: "unknown"}
	defer func() {
		e.g.auditEntry(
			ctx,
			registry.Audited{Who: "user " + who.Name, From: from, Method: "GET", Path: "/login/oidc"},
			err,
		)
	}()
	by := "openid from " + from
	if !e.g.attempts.may(e.g.now(), by) {
		return digest, api.NewError(api.TooMany, "too many attempts that failed", "wait a minute and try again")
	}
	got, err := e.g.provider.Finish(ctx, code, a)
	if err != nil {
		return digest, e.explained(err)
	}
	who = got
	u, err := e.g.vouchedFor(ctx, got)
	if err == nil {
		e.g.attempts.forgive(by)
	}
	return sessionDigest(u), err
}

// explained converts an error of the provider to one for the login page and logs the details.
func (e *OIDC) explained(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, openid.ErrUnreachable):
		e.g.log.Warn("OpenID provider cannot be reached", "issuer", e.g.provider.Issuer(), "err", err)
		return api.NewError(api.Unavailable, e.Host()+" cannot be used now",
			"try again, or log in with a password or a token of this server; its log says what is wrong")
	}
	e.g.log.Warn("OpenID login refused", "issuer", e.g.provider.Issuer(), "err", err)
	return api.NewError(
		api.Unauthorized,
		"the login at "+e.Host()+" is not valid here",
		"begin it again; the server's log says why",
	)
}

// vouchedFor records a user of the provider with the role that the provider gives now. A user who has no role there any
// more is deleted, which ends all sessions.
func (g *Guard) vouchedFor(ctx context.Context, p openid.Person) (u registry.User, err error) {
	now := g.now()
	err = g.registry.UpdateReserved(ctx, func(tx *registry.Tx) (err error) {
		u, err = tx.UserBySubject(g.provider.Issuer(), p.Subject)
		switch known := err == nil; {
		case err != nil && !errors.Is(err, registry.ErrNotFound):
			return err
		case p.Role == "" && known:
			return tx.DeleteUser(u.Name)
		case p.Role == "":
			return nil
		case known:
			u.Role, u.Used = p.Role, now
			return tx.SetUser(u)
		}
		u = registry.User{
			Name:    p.Name,
			Role:    p.Role,
			Issuer:  g.provider.Issuer(),
			Subject: p.Subject,
			Created: now,
			Used:    now,
		}
		return tx.CreateUser(u)
	})
	switch {
	case errors.Is(err, registry.ErrExists):
		return u, api.NewError(api.Conflict, fmt.Sprintf("another user here is called %s already", p.Name),
			"an admin can make room: `pando user delete "+p.Name+"`")
	case err == nil && p.Role == "":
		return u, api.NewError(
			api.Forbidden,
			p.Name+" has no role here",
			"whoever runs this server gives roles to groups of "+g.provider.Host()+", with --oidc-role",
		)
	}
	return u, err
}

// vouched reports whether a user may have sessions: a user of a provider only while that provider is configured.
func (g *Guard) vouched(u registry.User) bool {
	return u.Issuer == "" || g.provider != nil && g.provider.Issuer() == u.Issuer
}
