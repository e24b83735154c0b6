package openid

import (
	"fmt"
	"slices"
	"strings"

	"pando/internal/fleet"
)

// claims are what a provider says of somebody.
type claims map[string]any

// find returns a claim by its name, or by a path of names with dots between them. Some names have dots themselves.
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

// values are the texts of a claim, which is one text or a list of them.
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

// role is the highest role that the claim gives, "" for none.
func (c Config) role(of claims) (best fleet.Role) {
	has := of.values(c.Claim)
	for _, g := range c.Grants {
		if (g.Value == Everybody || slices.Contains(has, g.Value)) && (best == "" || g.Role.May(best)) {
			best = g.Role
		}
	}
	return best
}

// name is what somebody is called here: the claim of names, or where that is absent or no name the subject.
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
