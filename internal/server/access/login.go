package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/ratelimit"
	"pando/internal/registry"
)

// Limits of failed logins for each name and each address: a burst, then one in each interval, so 300 passwords an hour.
const (
	loginBurst = 5
	loginEvery = 12 * time.Second
	maxTried   = 10_000 // names and addresses that are counted
	checksMost = 2      // passwords that are checked at a time: each check takes 46 MiB
)

// attempts limits failed logins.
type attempts struct {
	mu     sync.Mutex
	tried  map[string]*ratelimit.Bucket
	checks chan struct{}
}

func newAttempts() *attempts {
	return &attempts{tried: map[string]*ratelimit.Bucket{}, checks: make(chan struct{}, checksMost)}
}

// may counts a login attempt and reports whether the name or address may make it now.
func (l *attempts) may(now time.Time, key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.tried[key]
	if b == nil {
		if len(l.tried) >= maxTried { // all counts are dropped, because a new name must be limited too
			clear(l.tried)
		}
		b = ratelimit.New(loginBurst, 1/loginEvery.Seconds())
		l.tried[key] = b
	}
	return b.Take(now)
}

// forgive deletes the counts of names and addresses whose login succeeded.
func (l *attempts) forgive(keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		delete(l.tried, k)
	}
}

// sessionDigest returns the digest that a user's session carries. It changes with the password, which ends all
// sessions. Users of an OpenID provider have no password; it is made from their identity there.
func sessionDigest(u registry.User) [sha256.Size]byte {
	if u.Issuer != "" {
		return sha256.Sum256(
			fmt.Appendf(nil, "pando openid session v1\x00%q%q%d", u.Issuer, u.Subject, u.Created.UnixNano()),
		)
	}
	return sha256.Sum256([]byte("pando user session v1\x00" + u.Name + "\x00" + u.Hash))
}

var errNoLogin = api.NewError(api.Unauthorized, "the user or the password is wrong",
	"to make a user, run `pando user create NAME --role viewer` on the server")

// Login checks a password and returns the digest for a session. from is the address of the browser.
func (g *Guard) Login(ctx context.Context, from, name, password string) (digest [sha256.Size]byte, err error) {
	defer func() { g.auditLogin(ctx, from, name, err) }()
	now := g.now()
	byName, byFrom := "name "+name, "from "+from
	if !g.attempts.may(now, byName) || !g.attempts.may(now, byFrom) {
		return digest, api.NewError(api.TooMany, "too many wrong passwords", "wait a minute and try again")
	}
	select {
	case g.attempts.checks <- struct{}{}:
		defer func() { <-g.attempts.checks }()
	case <-ctx.Done():
		return digest, context.Cause(ctx)
	}
	var u registry.User
	err = g.registry.View(ctx, func(tx *registry.Tx) (err error) {
		u, err = tx.User(name)
		return err
	})
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return digest, err
	}
	if !identity.CheckPassword(u.Hash, password) { // takes the same time when there is no such user
		return digest, errNoLogin
	}
	g.attempts.forgive(byName, byFrom)
	err = g.registry.UpdateReserved(ctx, func(tx *registry.Tx) error {
		u, err := tx.User(name)
		if err != nil {
			return err
		}
		u.Used = now
		return tx.SetUser(u)
	})
	return sessionDigest(u), unlessFull(err)
}

// unlessFull drops the error of a full disk, so that people can log in to find out what is wrong; only the time of
// their login is not recorded then.
func unlessFull(err error) error {
	if errors.Is(err, registry.ErrFull) {
		return nil
	}
	return err
}

// auditLogin records a login in the audit log, also one that failed.
func (g *Guard) auditLogin(ctx context.Context, from, name string, err error) {
	g.auditEntry(ctx, registry.Audited{Who: "user " + cut(name, 64), From: from, Method: "POST", Path: "/login"}, err)
}

// auditEntry adds the outcome to an entry of the audit log and records it. Failed logins are summed up.
func (g *Guard) auditEntry(ctx context.Context, a registry.Audited, err error) {
	a.At, a.Status = g.now(), 200
	if err != nil {
		g.auditFailure(ctx, a, err)
		return
	}
	g.writeAudit(ctx, a, func(tx *registry.Tx) error { return tx.AppendAudited(a) })
}

// userOf returns the user of a session.
func (g *Guard) userOf(ctx context.Context, digest [sha256.Size]byte) (found registry.User, err error) {
	err = g.registry.View(ctx, func(tx *registry.Tx) error {
		users, err := tx.Users()
		for _, u := range users {
			if sessionDigest(u) == digest && g.vouched(u) {
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

// Enter returns the caller that a session of the dashboard belongs to: a token, or a user.
func (g *Guard) Enter(ctx context.Context, digest [sha256.Size]byte) (context.Context, string, fleet.Role, error) {
	p := httpapi.Caller{Kind: "token"}
	t, err := g.validToken(ctx, registry.Hash(digest))
	p.Name, p.Role = t.Name, t.Role
	if err == nil && len(t.Groups) > 0 {
		err = api.NewError(
			api.Forbidden,
			"token "+t.Name+" is for "+groupsText(t.Groups)+" only, and these pages show the whole site",
			"use it with the command line",
		)
	}
	if api.IsCode(err, api.Unauthorized) {
		var u registry.User
		u, err = g.userOf(ctx, digest)
		p = httpapi.Caller{Kind: "user", Name: u.Name, Role: u.Role}
	}
	if err == nil {
		err = g.rates.may(g.now(), p.Kind, p.Name)
	}
	if err != nil {
		return nil, "", "", err
	}
	return httpapi.WithCaller(ctx, p), p.Name, p.Role, nil
}
