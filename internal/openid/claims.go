package openid

import (
	"fmt"
	"slices"
	"strings"

	"pando/internal/fleet"
)

// claims are what a provider says about a person.
type claims map[string]any

// find returns a claim by its name, or by a path of names separated by dots. Some names contain dots themselves.
func (c claims) find(name string) (any, bool) {
	if v, ok := c[name]; ok {
		return v, true
	}
	first, rest, ok := strings.Cut(name, ".")
	inner, is := c[first].(map[string]any)
	if !ok || !is {
		return nil, false
	}
	return claims(inner).find(rest)
}

// values returns the strings of a claim, which is a string or a list of strings.
func (c claims) values(name string) []string {
	v, _ := c.find(name)
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, x := range v {
			if s, ok := x.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// role returns the highest role that a person's claims give, "" for none.
func (c Config) role(of claims) (best fleet.Role) {
	has := of.values(c.Claim)
	for _, g := range c.Grants {
		if (g.Value == Everybody || slices.Contains(has, g.Value)) && (best == "" || g.Role.May(best)) {
			best = g.Role
		}
	}
	return best
}

// name returns a person's name on this site: the name claim, or the subject if that claim is absent or is not a valid
// name.
func (c Config) name(of claims, subject string) (string, error) {
	for _, n := range append(of.values(c.Name), subject) {
		if fleet.ValidPerson(n) == nil {
			return n, nil
		}
	}
	return "", fmt.Errorf(
		"the provider gives no name that can be used here: neither its claim %s nor the subject %q is one",
		c.Name,
		subject,
	)
}
