package server

import (
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
)

// secrets makes each secret for whom it is declared. Its value is not declared, so it has to be there.
func (a *application) secrets() error {
	for _, s := range a.req.Secrets {
		if err := about("secret", s.Name, a.secret(s)); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) secret(is fleet.Secret) error {
	if err := httpapi.Invalid(is.Validate()); err != nil {
		return err
	}
	was, err := a.tx.Secret(is.Name)
	if fleetview.Absent(err) {
		return httpapi.BadRequest("secret "+is.Name+" has no value on this server",
			"give it first, as a fleet file has none: pando secret set "+is.Name+" --from FILE")
	}
	if err != nil {
		return err
	}
	d := diff{}
	d.add("for", scopesText(was.For), scopesText(is.For))
	if len(d) == 0 {
		return nil
	}
	a.step("secret", is.Name, api.Alters, d)
	was.For, was.Changed = is.For, a.o.now().UTC()
	return a.tx.PutSecret(was)
}

// scopesText is for whom a secret is, in an order of its own: the order of a list means nothing.
func scopesText(scopes []fleet.Scope) string {
	var out []string
	for _, s := range scopes {
		out = append(out, s.String())
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}
