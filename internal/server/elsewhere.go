package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"pando/internal/api"
	"pando/internal/dashboard"
	"pando/internal/openid"
	"pando/internal/registry"
)

// checkOpenID refuses a provider that nobody could use.
func (c Config) checkOpenID() error {
	if c.OpenID == nil {
		return nil
	}
	if c.Dashboard == "" || c.Dashboard == "off" || c.DashboardOpen {
		return errors.New("OpenID provider: it is for the dashboard, which is off, or open to everybody")
	}
	return c.OpenID.Check()
}

// elsewhere lets people in whom an OpenID provider vouches for.
type elsewhere struct{ s *Server }

// Host is what the login page calls the provider.
func (e elsewhere) Host() string { return e.s.provider.Host() }

// Begin is where a browser goes to log in.
func (e elsewhere) Begin(ctx context.Context, a dashboard.Attempt) (string, error) {
	to, err := e.s.provider.Begin(ctx, openid.Attempt(a))
	return to, e.explained(err)
}

// Finish takes the code of somebody who comes back from there.
func (e elsewhere) Finish(
	ctx context.Context,
	from, code string,
	a dashboard.Attempt,
) (digest [sha256.Size]byte, err error) {
	who := openid.Person{Name: "unknown"}
	defer func() {
		e.s.auditEntry(
			ctx,
			registry.Audited{Who: "user " + who.Name, From: from, Method: "GET", Path: "/login/oidc"},
			err,
		)
	}()
	by := "openid from " + from
	if !e.s.logins.may(e.s.now(), by) {
		return digest, api.NewError(api.TooMany, "too many logins that failed", "wait a minute and try again")
	}
	got, err := e.s.provider.Finish(ctx, code, openid.Attempt(a))
	if err != nil {
		return digest, e.explained(err)
	}
	who = got
	u, err := e.s.vouchedFor(ctx, got)
	if err == nil {
		e.s.logins.forgive(by)
	}
	return sessionDigest(u), err
}

// explained says to who logs in what went wrong at the provider.
func (e elsewhere) explained(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, openid.ErrUnreachable):
		e.s.log.Warn("OpenID provider", "issuer", e.s.provider.Issuer(), "err", err)
		return api.NewError(api.Unavailable, e.Host()+" cannot be used now",
			"try again, or log in with a password or a token of this server; its log says what is wrong")
	}
	e.s.log.Warn("login by an OpenID provider refused", "issuer", e.s.provider.Issuer(), "err", err)
	return api.NewError(
		api.Unauthorized,
		"the login at "+e.Host()+" is not valid here",
		"begin it again; the server's log says why",
	)
}

// vouchedFor records somebody whom the provider vouches for, with the role that they have there today. Who has none
// any more is forgotten, and so all their sessions end.
func (s *Server) vouchedFor(ctx context.Context, p openid.Person) (u registry.User, err error) {
	now := s.now()
	err = s.registry.Update(ctx, func(tx *registry.Tx) (err error) {
		u, err = tx.UserBySubject(s.provider.Issuer(), p.Subject)
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
			Issuer:  s.provider.Issuer(),
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
			"whoever runs this server gives roles to groups of "+s.provider.Host()+", with --oidc-role",
		)
	}
	return u, err
}

// vouched tells whether a user's sessions are good: those of a provider are as long as it is the one that is asked.
func (s *Server) vouched(u registry.User) bool {
	return u.Issuer == "" || s.provider != nil && s.provider.Issuer() == u.Issuer
}
