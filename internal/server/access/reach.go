package access

import (
	"net/http"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/registry"
)

// Reach says what a token that is limited to some groups may do with a route. It may not use a route without a class.
type Reach int

// The classes of routes.
const (
	WholeSite Reach = iota // nothing: the route is about all groups, or about what they share
	AnyGroup               // the same as other tokens: the answer says nothing about nodes
	OwnGroups              // the route answers about, and changes, only the token's groups
)

// The routes by class. Images belong to all groups: a token with groups may read them, but not change them.
var (
	reachesAll = []string{
		"GET /v1/images/{name}/diff", "GET /v1/images/{name}/history", "GET /v1/images/{name}/sbom",
		"GET /v1/store/versions/{digest}", "GET /v1/store/objects/{id}", "POST /v1/store/missing",
		"GET /v1/keys", "GET /v1/policy", "GET /v1/loaders", "GET /v1/loaders/{firmware}",
		"GET /v1/openapi.json",
	}
	reachesOwn = []string{
		"GET /v1/status",
		"GET /v1/nodes", "POST /v1/nodes", "PATCH /v1/nodes", "DELETE /v1/nodes", "POST /v1/nodes/adopt",
		"POST /v1/nodes/sync",
		"POST /v1/nodes/approve", "POST /v1/nodes/reset",
		"GET /v1/nodes/{name}", "GET /v1/nodes/{name}/boot", "GET /v1/nodes/{name}/disks",
		"GET /v1/nodes/{name}/config",
		"GET /v1/nodes/{name}/logs", "GET /v1/nodes/{name}/logs/stream",
		"POST /v1/nodes/{name}/cache", "POST /v1/nodes/{name}/power", "PUT /v1/nodes/{name}/password",
		"PUT /v1/nodes/{name}/recording",
		"GET /v1/recordings", "GET /v1/power", "GET /v1/diff", "GET /v1/sd",
		"GET /v1/groups", "GET /v1/groups/{name}", "PATCH /v1/groups/{name}", "PUT /v1/groups/{name}/password",
		"GET /v1/classes", "GET /v1/classes/{name}",
		"GET /v1/rollouts", "POST /v1/rollouts", "GET /v1/rollouts/{id}", "POST /v1/rollouts/{id}/pause",
		"POST /v1/rollouts/{id}/resume",
		"POST /v1/rollouts/{id}/abort", "DELETE /v1/rollouts/{id}",
		"GET /v1/images", "GET /v1/images/{name}", "GET /v1/images/{name}/trace", "GET /v1/images/{name}/slim",
		"GET /v1/boots", "GET /v1/boots/failed", "GET /v1/boots/{id}",
		"GET /v1/history", "GET /v1/history/figures", "GET /v1/history/compare",
		"GET /v1/events", "GET /v1/events/stream",
		"GET /v1/config", "GET /v1/config/file", "PUT /v1/config", "DELETE /v1/config",
		"GET /v1/state", "POST /v1/state/{name}/snapshot", "POST /v1/state/{name}/reset", "POST /v1/state/{name}/copy",
		"DELETE /v1/state/{name}/orders",
	}
	reachesSite = []string{
		"POST /v1/groups", "DELETE /v1/groups/{name}", // such a token is limited to groups that exist already
		"POST /v1/classes", "PATCH /v1/classes/{name}", "DELETE /v1/classes/{name}",
		"POST /v1/images/{name}/versions", "DELETE /v1/images/{name}/versions/{version}",
		"PUT /v1/images/{name}/tags/{tag}",
		"DELETE /v1/images/{name}/tags/{tag}", "GET /v1/store/usage", "POST /v1/store/collect",
		"POST /v1/store/versions", "POST /v1/store/objects",
		"GET /v1/history/samples", "GET /v1/history/senders", // the server's load, and who sent what to whom
		"GET /v1/leases", "DELETE /v1/leases/{address}",
		"POST /v1/loaders", "DELETE /v1/loaders/{firmware}",
		"POST /v1/media", "GET /v1/fleet", "PUT /v1/fleet", "PUT /v1/policy",
		"GET /v1/secrets", "PUT /v1/secrets", "DELETE /v1/secrets/{name}", // one secret may be for several groups
		"POST /v1/keys", "POST /v1/keys/{name}/rotate", "POST /v1/keys/{name}/revoke", "POST /v1/signatures",
		"GET /v1/users", "POST /v1/users", "PATCH /v1/users/{name}", "DELETE /v1/users/{name}",
		"GET /v1/tokens", "POST /v1/tokens", "DELETE /v1/tokens/{name}", "GET /v1/audit",
	}
)

// KnownRoutes returns the routes that have a class, as "METHOD PATH".
func KnownRoutes() []string { return slices.Concat(reachesAll, reachesOwn, reachesSite) }

// Reaches returns the class of each route.
func Reaches() map[string]Reach {
	out := map[string]Reach{}
	for _, c := range []struct {
		routes []string
		reach  Reach
	}{{reachesSite, WholeSite}, {reachesAll, AnyGroup}, {reachesOwn, OwnGroups}} {
		for _, r := range c.routes {
			out[r] = c.reach
		}
	}
	return out
}

// SiteOnly refuses callers that are limited to some groups.
func SiteOnly(h httpapi.Handler) httpapi.Handler { return confined(WholeSite)(h) }

// confined limits a caller that has groups to what the class `of` allows.
func confined(of Reach) func(httpapi.Handler) httpapi.Handler {
	return func(h httpapi.Handler) httpapi.Handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			p := httpapi.CallerOf(r.Context())
			if len(p.Groups) == 0 {
				return h(w, r)
			}
			groups := "it is for " + groupsText(p.Groups) + " only"
			if of == WholeSite {
				return api.NewError(
					api.Forbidden,
					p.String()+" may not do this: it is about the whole site",
					groups+"; another token may",
				)
			}
			err := h(w, r.WithContext(registry.Within(r.Context(), p.Groups)))
			if err == nil {
				return nil
			}
			if e := httpapi.ErrorOf(err); e.Code == api.NotFound {
				e.Hint = strings.TrimPrefix(e.Hint+"; "+p.String()+" sees "+groupsText(p.Groups)+" only", "; ")
				return e
			}
			return err
		}
	}
}

// groupsText returns a text like "@lab1, @lab2".
func groupsText(groups []string) string { return "@" + strings.Join(groups, ", @") }

// ownGroups checks the groups that a new token is to be limited to.
func ownGroups(tx *registry.Tx, groups []string, role fleet.Role) error {
	if len(groups) > 0 && role == fleet.Admin {
		return httpapi.BadRequest(
			"an admin's token is for the whole site: it could give itself everything",
			"make an operator's: --role operator",
		)
	}
	for _, g := range groups {
		if _, err := tx.Group(g); err != nil {
			return httpapi.WithHint(err, "`pando group list` shows the groups")
		}
	}
	return nil
}
