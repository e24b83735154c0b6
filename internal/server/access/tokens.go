package access

import (
	"net/http"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/registry"
)

func (g *Guard) listTokens(r *http.Request) (any, error) {
	out := api.TokenList{Tokens: []api.Token{}}
	err := g.registry.View(r.Context(), func(tx *registry.Tx) error {
		tokens, err := tx.Tokens()
		for _, t := range tokens {
			out.Tokens = append(
				out.Tokens,
				api.Token{
					Name:    t.Name,
					Role:    t.Role,
					Groups:  t.Groups,
					Created: t.Created,
					Used:    t.Used,
					Expires: t.Expires,
				},
			)
		}
		return err
	})
	return out, err
}

func (g *Guard) createToken(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.TokenCreate](r)
	if err != nil {
		return nil, err
	}
	if err := httpapi.Invalid(fleet.ValidName("token", req.Name)); err != nil {
		return nil, err
	}
	if req.TTL < 0 {
		return nil, httpapi.BadRequest("token "+req.Name+": its time to live is negative", "")
	}
	secret := identity.NewToken()
	t := registry.Token{
		Name:    req.Name,
		Hash:    registry.HashSecret(secret),
		Role:    fleet.Operator,
		Groups:  req.Groups,
		Created: g.now(),
	}
	if req.Role != "" {
		if t.Role, err = fleet.ParseRole(string(req.Role)); err != nil {
			return nil, httpapi.Invalid(err)
		}
	}
	if req.TTL > 0 {
		t.Expires = t.Created.Add(req.TTL)
	}
	err = g.registry.Update(r.Context(), func(tx *registry.Tx) error {
		if err := ownGroups(tx, t.Groups, t.Role); err != nil {
			return err
		}
		return tx.CreateToken(t)
	})
	if err != nil {
		return nil, err
	}
	return api.NewToken{
		Token:  api.Token{Name: t.Name, Role: t.Role, Groups: t.Groups, Created: t.Created, Expires: t.Expires},
		Secret: api.FormatToken(secret, g.key),
	}, nil
}

func (g *Guard) deleteToken(r *http.Request) (any, error) {
	return nil, g.registry.Update(
		r.Context(),
		func(tx *registry.Tx) error { return tx.DeleteToken(r.PathValue("name")) },
	)
}
