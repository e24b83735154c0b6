package openid

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"pando/internal/fleet"
)

// Defaults of Config.
const (
	DefaultClaim = "groups"
	DefaultName  = "preferred_username"
)

// Everybody as the value of a grant stands for all whom the provider lets log in.
const Everybody = "*"

// Grant gives a role to whoever has a value in the claim.
type Grant struct {
	Role  fleet.Role
	Value string
}

// ParseGrant parses ROLE=VALUE.
func ParseGrant(s string) (Grant, error) {
	role, value, _ := strings.Cut(s, "=")
	r, err := fleet.ParseRole(role)
	if err == nil && value == "" {
		err = fmt.Errorf(
			"grant %q: it is ROLE=VALUE, such as operator=it-staff, or viewer=%s for everybody",
			s,
			Everybody,
		)
	}
	return Grant{r, value}, err
}

// Config is a provider, and what is wanted of it.
type Config struct {
	Issuer string   // its URL, under which it describes itself; https, or http of this machine
	Client string   // the name that this site has there
	Secret string   // shared with it; "": a public client, which only the proof key protects
	Scopes []string // what is asked for beside openid
	Claim  string   // whose values give roles, such as groups; dots lead into objects: realm_access.roles
	Name   string   // the claim that is somebody's name here
	Grants []Grant
}

// Check reports what makes no sense.
func (c Config) Check() error {
	u, err := url.Parse(c.Issuer)
	switch {
	case err != nil:
		return fmt.Errorf("OpenID provider: %w", err)
	case u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("OpenID provider: issuer %q is no URL such as https://login.example/realms/lab", c.Issuer)
	case u.Scheme != "https" && (u.Scheme != "http" || !here(u.Hostname())):
		return fmt.Errorf(
			"OpenID provider: issuer %q is not https: anybody on the way could log in as anybody",
			c.Issuer,
		)
	case c.Client == "":
		return errors.New("OpenID provider: say under which client ID this site is known there")
	case c.Claim == "" || c.Name == "":
		return errors.New("OpenID provider: the claims of roles and of names cannot be empty")
	case len(c.Grants) == 0:
		return errors.New("OpenID provider: no role is given to anybody, so nobody could log in")
	}
	return nil
}

// here reports whether a host is this machine.
func here(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Host is the issuer's host, which is what people know it by.
func (c Config) Host() string {
	u, err := url.Parse(c.Issuer)
	if err != nil {
		return c.Issuer
	}
	return u.Hostname()
}
