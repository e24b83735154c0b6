package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
)

// person is who asks for something.
type person struct {
	kind string // "token", "user"; "" somebody on this machine who may open the socket
	name string
	role fleet.Role

	groups []string // that they are for; none: all
}

func (p person) String() string {
	if p.kind == "" {
		return "this machine"
	}
	return p.kind + " " + p.name
}

type personKey struct{}

func withPerson(ctx context.Context, p person) context.Context {
	return context.WithValue(ctx, personKey{}, p)
}

// asking is the person behind a request. Who came by the socket is root here, and may everything.
func asking(ctx context.Context) person {
	if p, ok := ctx.Value(personKey{}).(person); ok {
		return p
	}
	return person{role: fleet.Admin}
}

// who is the person behind a request, in words.
func who(r *http.Request) string { return asking(r.Context()).String() }

// adminPaths are what only an admin may change, or even see: who may do what, and what is trusted.
var adminPaths = []string{"/v1/users", "/v1/tokens", "/v1/audit", "/v1/keys", "/v1/policy"}

// openPaths are of those what everybody may see.
var openPaths = []string{"/v1/keys", "/v1/policy"}

// needs is the role that a route takes.
func needs(method, path string) fleet.Role {
	looks := method == http.MethodGet || path == "/v1/store/missing"
	for _, p := range adminPaths {
		if path == p || strings.HasPrefix(path, p+"/") {
			if looks && slices.Contains(openPaths, p) {
				return fleet.Viewer
			}
			return fleet.Admin
		}
	}
	if looks {
		return fleet.Viewer
	}
	return fleet.Operator
}

// takes lets those through who have a role.
func takes(need fleet.Role) func(handler) handler {
	return func(h handler) handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			p := asking(r.Context())
			if !p.role.May(need) {
				return api.NewError(
					api.Forbidden,
					p.String()+" is "+article(p.role)+", and this takes "+article(need),
					"an admin gives roles: `pando user set NAME --role "+string(
						need,
					)+"`, `pando token create NAME --role "+string(
						need,
					)+"`",
				)
			}
			return h(w, r)
		}
	}
}

func article(r fleet.Role) string {
	if r == fleet.Viewer || r == "" {
		return "a viewer"
	}
	return "an " + string(r)
}
