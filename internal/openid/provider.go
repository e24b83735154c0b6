package openid

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"pando/internal/fleet"
)

// answerTime is how long the provider may take to answer. goodFor is how long its metadata is used. quietFor is the
// pause after it failed to answer.
const (
	answerTime = 10 * time.Second
	goodFor    = time.Hour
	quietFor   = 5 * time.Second
)

// ErrUnreachable is wrapped by errors that are not the fault of the person who logs in: the provider does not answer,
// or its answer is not valid.
var ErrUnreachable = errors.New("the OpenID provider cannot be used")

// Person is a person who has logged in at the provider.
type Person struct {
	Subject string // the provider's identifier, which it never reuses
	Name    string
	Role    fleet.Role // "": no role, so the person may not log in here
}

// Attempt is one login in progress. The provider returns State and Nonce; Verifier proves that this server began the
// login.
type Attempt struct {
	State, Nonce, Verifier string
	Redirect               string // URL of this site to which the provider sends the browser
}

// Provider is an OpenID provider. It need not be reachable when it is made: its metadata is read at the first login.
type Provider struct {
	cfg    Config
	now    func() time.Time
	client *http.Client

	mu     sync.Mutex
	found  *found
	until  time.Time // until then found is used, or a failure is not tried again
	failed error
}

// found is a provider's metadata.
type found struct {
	*oidc.Provider
	verifier *oidc.IDTokenVerifier
	oauth    oauth2.Config
}

// New returns a Provider. c must have been checked.
func New(c Config, now func() time.Time) *Provider {
	return &Provider{cfg: c, now: now, client: &http.Client{Timeout: answerTime, CheckRedirect: noRedirect}}
}

// noRedirect refuses redirects: the URLs in the metadata are final, and a secret must not be sent elsewhere.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Issuer returns the provider's URL.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// Host returns the host name of the provider.
func (p *Provider) Host() string { return p.cfg.Host() }

// discover returns the provider's metadata. It reads them again after goodFor. If the provider does not answer, the old
// ones stay in use.
func (p *Provider) discover(ctx context.Context) (*found, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if now.Before(p.until) {
		return p.found, p.failed
	}
	f, err := p.ask(ctx)
	switch {
	case err == nil:
		p.found, p.failed, p.until = f, nil, now.Add(goodFor)
	case p.found != nil:
		p.until = now.Add(quietFor)
	case ctx.Err() == nil:
		p.failed, p.until = err, now.Add(quietFor)
	default:
		return nil, err // the caller is gone, which says nothing about the provider
	}
	return p.found, p.failed
}

func (p *Provider) ask(ctx context.Context) (*found, error) {
	at, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	var says struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := at.Claims(&says); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	end := at.Endpoint()
	end.AuthStyle = oauth2.AuthStyleInHeader // the default if the metadata name no method
	if p.cfg.Secret == "" || len(says.Methods) > 0 && !slices.Contains(says.Methods, "client_secret_basic") {
		end.AuthStyle = oauth2.AuthStyleInParams
	}
	return &found{
		at,
		at.Verifier(&oidc.Config{ClientID: p.cfg.Client, Now: p.now}),
		oauth2.Config{ClientID: p.cfg.Client,
			ClientSecret: p.cfg.Secret, Endpoint: end, Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...)},
	}, nil
}

// Begin returns the URL where a browser logs in.
func (p *Provider) Begin(ctx context.Context, a Attempt) (string, error) {
	f, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	c := f.oauth
	c.RedirectURL = a.Redirect
	return c.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// Finish exchanges the code that came back for the person that the provider names. An error that does not wrap
// ErrUnreachable is a refusal.
func (p *Provider) Finish(ctx context.Context, code string, a Attempt) (Person, error) {
	f, err := p.discover(ctx)
	if err != nil {
		return Person{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	c := f.oauth
	c.RedirectURL = a.Redirect
	tokens, err := c.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) &&
		refused.ErrorCode != "" { // the other fields hold what the provider sent, which may be secret
		return Person{}, fmt.Errorf("the provider refuses the code: %q", refused.ErrorCode)
	}
	if err != nil {
		return Person{}, fmt.Errorf("%w: exchange of the code: %w", ErrUnreachable, withoutBody(err))
	}
	raw, ok := tokens.Extra("id_token").(string)
	if !ok {
		return Person{}, errors.New("the provider sent no ID token")
	}
	id, err := f.verifier.Verify(ctx, raw)
	if err != nil {
		return Person{}, fmt.Errorf("ID token: %w", err)
	}
	return p.person(ctx, f, id, tokens, a)
}

// withoutBody returns an error without anything that the provider sent.
func withoutBody(err error) error {
	var e *oauth2.RetrieveError
	if errors.As(err, &e) && e.Response != nil {
		return errors.New("it answers " + e.Response.Status)
	}
	return err
}

// person returns the person of an ID token whose signature, audience and expiry were checked.
func (p *Provider) person(
	ctx context.Context,
	f *found,
	id *oidc.IDToken,
	tokens *oauth2.Token,
	a Attempt,
) (Person, error) {
	if a.Nonce == "" || subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.Nonce)) != 1 {
		return Person{}, errors.New("ID token: it is of another login: the nonce differs")
	}
	var claimed claims
	if err := id.Claims(&claimed); err != nil {
		return Person{}, fmt.Errorf("ID token: %w", err)
	}
	if by, _ := claimed["azp"].(string); len(id.Audience) > 1 && by != p.cfg.Client {
		return Person{}, fmt.Errorf("ID token: it was made for %q", by)
	}
	if _, ok := claimed.find(p.cfg.Claim); !ok && f.UserInfoEndpoint() != "" {
		if err := p.more(ctx, f, id, tokens, claimed); err != nil {
			return Person{}, err
		}
	}
	name, err := p.cfg.name(claimed, id.Subject)
	return Person{id.Subject, name, p.cfg.role(claimed)}, err
}

// more adds the claims that some providers have only at their user info endpoint.
func (p *Provider) more(ctx context.Context, f *found, id *oidc.IDToken, tokens *oauth2.Token, claimed claims) error {
	info, err := f.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return fmt.Errorf("%w: user info: %w", ErrUnreachable, err)
	}
	if info.Subject != id.Subject {
		return errors.New("the user info is about another person than the ID token")
	}
	var further claims
	if err := info.Claims(&further); err != nil {
		return fmt.Errorf("%w: user info: %w", ErrUnreachable, err)
	}
	for k, v := range further {
		if _, there := claimed[k]; !there {
			claimed[k] = v
		}
	}
	return nil
}
