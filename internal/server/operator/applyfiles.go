package operator

import (
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/configfile"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
)

// config changes the config files to what is declared. Groups, classes and nodes are already as declared.
func (a *application) config() error {
	for _, f := range a.req.Config {
		if err := about("config file", configName(f), a.configFile(f)); err != nil {
			return err
		}
	}
	return nil
}

// configName returns a text that identifies a config file: its path and its scope.
func configName(f fleet.ConfigFile) string { return f.Path + " of " + f.For.String() }

func (a *application) configFile(is fleet.ConfigFile) error {
	if err := httpapi.Invalid(configfile.Check(is)); err != nil {
		return err
	}
	was, err := a.tx.ConfigFile(is.For, is.Path)
	action := api.Alters
	if fleetview.Absent(err) {
		err, action = nil, api.Creates
	}
	if err != nil {
		return err
	}
	fields := configDiff(was, is)
	if len(fields) == 0 {
		return nil
	}
	a.step("config file", configName(is), action, fields)
	is.Changed = a.at.UTC()
	return a.tx.PutConfigFile(is)
}

// pruneConfig deletes config files that are owned and not declared.
func (a *application) pruneConfig() error {
	if !a.req.Prune || len(a.req.Owns.Config) == 0 {
		return nil
	}
	all, err := a.tx.ConfigFiles()
	if err != nil {
		return err
	}
	named := map[configKey]bool{}
	for _, f := range a.req.Config {
		named[configKey{f.For, f.Path}] = true
	}
	for _, f := range all {
		if named[configKey{f.For, f.Path}] || !owned(a.req.Owns.Config, f.For.String()) {
			continue
		}
		a.step("config file", configName(f), api.Deletes, nil)
		if err := a.tx.DeleteConfigFile(f.For, f.Path); err != nil {
			return about("config file", configName(f), err)
		}
	}
	return nil
}

// secrets changes the scopes of secrets to what is declared. Values are not declared, so each secret must exist.
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
	was.For, was.Changed = is.For, a.at.UTC()
	return a.tx.PutSecret(was)
}

// scopesText returns a secret's scopes as text. They are sorted, because their order means nothing.
func scopesText(scopes []fleet.Scope) string {
	var out []string
	for _, s := range scopes {
		out = append(out, s.String())
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}
