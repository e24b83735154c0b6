package access

import (
	"net/http"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/registry"
)

// Routes returns the routes of users, tokens and the audit log.
func (g *Guard) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/users", httpapi.JSON(g.listUsers)),
		httpapi.NewRoute("POST", "/v1/users", httpapi.JSON(g.createUser)),
		httpapi.NewRoute("PATCH", "/v1/users/{name}", httpapi.JSON(g.setUser)),
		httpapi.NewRoute("DELETE", "/v1/users/{name}", httpapi.JSON(g.deleteUser)),
		httpapi.NewRoute("GET", "/v1/audit", httpapi.JSON(g.listAudit)),
		httpapi.NewRoute("GET", "/v1/tokens", httpapi.JSON(g.listTokens)),
		httpapi.NewRoute("POST", "/v1/tokens", httpapi.JSON(g.createToken)),
		httpapi.NewRoute("DELETE", "/v1/tokens/{name}", httpapi.JSON(g.deleteToken)),
	}
}

func apiUser(u registry.User) api.User {
	return api.User{Name: u.Name, Role: u.Role, Issuer: u.Issuer, Created: u.Created, Used: u.Used}
}

func (g *Guard) listUsers(r *http.Request) (any, error) {
	out := api.UserList{Users: []api.User{}}
	err := g.registry.View(r.Context(), func(tx *registry.Tx) error {
		users, err := tx.Users()
		for _, u := range users {
			out.Users = append(out.Users, apiUser(u))
		}
		return err
	})
	return out, err
}

func (g *Guard) createUser(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.UserCreate](r)
	if err != nil {
		return nil, err
	}
	u := registry.User{Name: req.Name, Role: fleet.Viewer, Created: g.now()}
	if req.Role != "" {
		if u.Role, err = fleet.ParseRole(string(req.Role)); err != nil {
			return nil, httpapi.Invalid(err)
		}
	}
	if err := httpapi.Invalid(fleet.ValidPerson(req.Name)); err != nil {
		return nil, err
	}
	if u.Hash, err = identity.HashPassword(req.Password); err != nil {
		return nil, httpapi.Invalid(err)
	}
	err = g.registry.Update(r.Context(), func(tx *registry.Tx) error { return tx.CreateUser(u) })
	return apiUser(u), err
}

func (g *Guard) setUser(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.UserSet](r)
	if err != nil {
		return nil, err
	}
	hash := ""
	if req.Role != nil {
		if _, err := fleet.ParseRole(string(*req.Role)); err != nil {
			return nil, httpapi.Invalid(err)
		}
	}
	if req.Password != nil {
		if hash, err = identity.HashPassword(*req.Password); err != nil {
			return nil, httpapi.Invalid(err)
		}
	}
	var u registry.User
	err = g.registry.Update(r.Context(), func(tx *registry.Tx) (err error) {
		if u, err = tx.User(r.PathValue("name")); err != nil {
			return err
		}
		if u.Issuer != "" {
			return httpapi.BadRequest("user "+u.Name+" logs in at "+u.Issuer+", which sets their name and what "+
				"they may do",
				"change it there; or delete the user here, and create one with a password")
		}
		if req.Role != nil {
			u.Role = *req.Role
		}
		if hash != "" {
			u.Hash = hash
		}
		return tx.SetUser(u)
	})
	return apiUser(u), err
}

func (g *Guard) deleteUser(r *http.Request) (any, error) {
	return nil, g.registry.Update(
		r.Context(),
		func(tx *registry.Tx) error { return tx.DeleteUser(r.PathValue("name")) },
	)
}

// IsChange reports whether a route changes something; its requests then belong in the audit log.
func IsChange(method, path string) bool {
	return method != http.MethodGet && path != "/v1/store/missing"
}
