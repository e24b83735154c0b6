package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/ratelimit"
	"pando/internal/registry"
)

// How often a password may be wrong: so many times at once, then once in so long, for each name and for each
// address that asks. At that rate a guesser tries 300 passwords an hour.
const (
	loginBurst = 5
	loginEvery = 12 * time.Second
	maxTried   = 10_000 // names and addresses that are remembered
	checksMost = 2      // passwords that are checked at a time: each takes 46 MiB
)

// logins slows down who guesses.
type logins struct {
	mu     sync.Mutex
	tried  map[string]*ratelimit.Bucket
	checks chan struct{}
}

func newLogins() *logins {
	return &logins{tried: map[string]*ratelimit.Bucket{}, checks: make(chan struct{}, checksMost)}
}

// may tells whether a name or address may try once more, which is counted.
func (l *logins) may(now time.Time, key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.tried[key]
	if b == nil {
		if len(l.tried) >= maxTried { // all are forgotten rather than one let in for ever
			clear(l.tried)
		}
		b = ratelimit.New(loginBurst, 1/loginEvery.Seconds())
		l.tried[key] = b
	}
	return b.Take(now)
}

// forgive forgets the wrong passwords of a name or address: the right one came.
func (l *logins) forgive(keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		delete(l.tried, k)
	}
}

// sessionDigest stands for a user with this password: with another one, or none such user, the session is over. Who
// came by a provider has none, and is who they are there.
func sessionDigest(u registry.User) [sha256.Size]byte {
	if u.Issuer != "" {
		return sha256.Sum256(
			fmt.Appendf(nil, "pando openid session v1\x00%q%q%d", u.Issuer, u.Subject, u.Created.UnixNano()),
		)
	}
	return sha256.Sum256([]byte("pando user session v1\x00" + u.Name + "\x00" + u.Hash))
}

var errNoLogin = api.NewError(api.Unauthorized, "user and password do not belong together",
	"who has no user yet: `pando user create NAME --role viewer` on the server")

// login checks a password, and answers what a session stands for. from is the address that asks.
func (s *Server) login(ctx context.Context, from, name, password string) (digest [sha256.Size]byte, err error) {
	defer func() { s.auditLogin(ctx, from, name, err) }()
	now := s.now()
	byName, byFrom := "name "+name, "from "+from
	if !s.logins.may(now, byName) || !s.logins.may(now, byFrom) {
		return digest, api.NewError(api.TooMany, "too many wrong passwords", "wait a minute and try again")
	}
	select {
	case s.logins.checks <- struct{}{}:
		defer func() { <-s.logins.checks }()
	case <-ctx.Done():
		return digest, context.Cause(ctx)
	}
	var u registry.User
	err = s.registry.View(ctx, func(tx *registry.Tx) (err error) {
		u, err = tx.User(name)
		return err
	})
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return digest, err
	}
	if !identity.CheckPassword(u.Hash, password) { // takes as long where there is no such user
		return digest, errNoLogin
	}
	s.logins.forgive(byName, byFrom)
	err = s.registry.Update(ctx, func(tx *registry.Tx) error {
		u, err := tx.User(name)
		if err != nil {
			return err
		}
		u.Used = now
		return tx.SetUser(u)
	})
	return sessionDigest(u), err
}

// auditLogin writes a login down, also one that failed.
func (s *Server) auditLogin(ctx context.Context, from, name string, err error) {
	s.auditEntry(ctx, registry.Audited{Who: "user " + cut(name, 64), From: from, Method: "POST", Path: "/login"}, err)
}

// auditEntry completes a line of the audit log with what became of it, and writes it down.
func (s *Server) auditEntry(ctx context.Context, a registry.Audited, err error) {
	a.At, a.Status = s.now(), 200
	if err != nil {
		e := httpapi.ErrorOf(err)
		a.Status, a.Error = e.Status, cut(e.Message, auditText)
	}
	if err := s.registry.Update(context.WithoutCancel(ctx), func(tx *registry.Tx) error { return tx.AppendAudited(a) }); err != nil {
		s.log.Error("audit log", "who", a.Who, "path", a.Path, "err", err)
	}
}

// userOf finds the user that a session stands for.
func (s *Server) userOf(ctx context.Context, digest [sha256.Size]byte) (found registry.User, err error) {
	err = s.registry.View(ctx, func(tx *registry.Tx) error {
		users, err := tx.Users()
		for _, u := range users {
			if sessionDigest(u) == digest && s.vouched(u) {
				found = u
			}
		}
		return err
	})
	if err == nil && found.Name == "" {
		err = api.NewError(api.Unauthorized, "the session is over", "")
	}
	return found, err
}
