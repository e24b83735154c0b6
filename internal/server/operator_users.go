package server

import (
	"net/http"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/registry"
)

// accessRoutes are about who may do what.
func (o *operator) accessRoutes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/users", httpapi.JSON(o.listUsers)),
		httpapi.NewRoute("POST", "/v1/users", httpapi.JSON(o.createUser)),
		httpapi.NewRoute("PATCH", "/v1/users/{name}", httpapi.JSON(o.setUser)),
		httpapi.NewRoute("DELETE", "/v1/users/{name}", httpapi.JSON(o.deleteUser)),
		httpapi.NewRoute("GET", "/v1/audit", httpapi.JSON(o.listAudit)),
		httpapi.NewRoute("GET", "/v1/tokens", httpapi.JSON(o.listTokens)),
		httpapi.NewRoute("POST", "/v1/tokens", httpapi.JSON(o.createToken)),
		httpapi.NewRoute("DELETE", "/v1/tokens/{name}", httpapi.JSON(o.deleteToken)),
	}
}

func apiUser(u registry.User) api.User {
	return api.User{Name: u.Name, Role: u.Role, Issuer: u.Issuer, Created: u.Created, Used: u.Used}
}

func (o *operator) listUsers(r *http.Request) (any, error) {
	out := api.UserList{Users: []api.User{}}
	err := o.reg.View(r.Context(), func(tx *registry.Tx) error {
		users, err := tx.Users()
		for _, u := range users {
			out.Users = append(out.Users, apiUser(u))
		}
		return err
	})
	return out, err
}

func (o *operator) createUser(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.UserCreate](r)
	if err != nil {
		return nil, err
	}
	u := registry.User{Name: req.Name, Role: fleet.Viewer, Created: o.now()}
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
	err = o.reg.Update(r.Context(), func(tx *registry.Tx) error { return tx.CreateUser(u) })
	return apiUser(u), err
}

func (o *operator) setUser(r *http.Request) (any, error) {
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
	err = o.reg.Update(r.Context(), func(tx *registry.Tx) (err error) {
		if u, err = tx.User(r.PathValue("name")); err != nil {
			return err
		}
		if u.Issuer != "" {
			return httpapi.BadRequest("user "+u.Name+" is known at "+u.Issuer+", which says who they are and what they may do",
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

func (o *operator) deleteUser(r *http.Request) (any, error) {
	return nil, o.reg.Update(r.Context(), func(tx *registry.Tx) error { return tx.DeleteUser(r.PathValue("name")) })
}

// isWrite tells whether a route is written down in the audit log.
func isWrite(method, path string) bool {
	return method != http.MethodGet && path != "/v1/store/missing"
}
