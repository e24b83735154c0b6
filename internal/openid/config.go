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

// Everybody as the value of a grant matches all people who can log in at the provider.
const Everybody = "*"

// Grant gives a role to people whose role claim contains a value.
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

// Config describes a provider and how its claims are used.
type Config struct {
	Issuer string   // the provider's URL, below which its metadata is; https, or http on this machine
	Client string   // the client ID of this site at the provider
	Secret string   // the client secret; "": a public client, protected by the proof key only
	Scopes []string // scopes to request besides openid
	Claim  string   // the claim that gives roles, such as groups; dots lead into objects: realm_access.roles
	Name   string   // the claim that is a person's name on this site
	Grants []Grant
}

// Check returns an error if the configuration is not usable.
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
		return errors.New("OpenID provider: set the client ID that this site has there")
	case c.Claim == "" || c.Name == "":
		return errors.New("OpenID provider: the claims of roles and of names cannot be empty")
	case len(c.Grants) == 0:
		return errors.New("OpenID provider: no role is granted, so nobody could log in")
	}
	return nil
}

// here reports whether a host is this machine.
func here(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Host returns the issuer's host, by which people know the provider.
func (c Config) Host() string {
	u, err := url.Parse(c.Issuer)
	if err != nil {
		return c.Issuer
	}
	return u.Hostname()
}
