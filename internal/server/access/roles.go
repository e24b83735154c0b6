package access

import (
	"net/http"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
)

// adminPaths can be changed only by admins. Only admins may read them either, unless they are in openPaths.
var adminPaths = []string{"/v1/users", "/v1/tokens", "/v1/audit", "/v1/keys", "/v1/policy", "/v1/loaders"}

// openPaths are the adminPaths that every role may read.
var openPaths = []string{"/v1/keys", "/v1/policy", "/v1/loaders"}

// RoleFor returns the lowest role that may use a route.
func RoleFor(method, path string) fleet.Role {
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

// takes lets only callers through whose role is at least `need`.
func takes(need fleet.Role) func(httpapi.Handler) httpapi.Handler {
	return func(h httpapi.Handler) httpapi.Handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			p := httpapi.CallerOf(r.Context())
			if !p.Role.May(need) {
				return api.NewError(
					api.Forbidden,
					p.String()+" is "+article(p.Role)+", and this needs "+article(need),
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
