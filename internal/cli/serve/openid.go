package serve

import (
	"bytes"
	"fmt"

	"github.com/spf13/pflag"

	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/openid"
	"pando/internal/secretfile"
)

// openidFlags name the OpenID provider by which people without a password on this server log in to the dashboard.
type openidFlags struct {
	issuer, client, secret string
	scopes, roles          []string
	claim, name            string
}

func (f *openidFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(
		&f.issuer,
		"oidc-issuer",
		"",
		"OpenID provider where people log in to the dashboard, such as https://login.example/realms/lab",
	)
	fl.StringVar(&f.client, "oidc-client", "", "client ID of this server at the provider")
	fl.StringVar(&f.secret, "oidc-secret", "", "file of the client secret (default: a public client)")
	fl.StringArrayVar(
		&f.roles,
		"oidc-role",
		nil,
		"ROLE=VALUE gives a role to who has this value in the claim, such as operator=it-staff; viewer=* for "+
			"everybody; several times",
	)
	fl.StringVar(
		&f.claim,
		"oidc-claim",
		openid.DefaultClaim,
		"claim whose values give roles; dots lead into objects, such as realm_access.roles",
	)
	fl.StringVar(&f.name, "oidc-name", openid.DefaultName, "claim that is somebody's name here")
	fl.StringSliceVar(
		&f.scopes,
		"oidc-scope",
		[]string{"profile"},
		"scopes that are asked for beside openid, with commas",
	)
}

// config returns the configuration of the provider that the flags name, nil for none.
func (f *openidFlags) config() (*openid.Config, error) {
	if f.issuer == "" {
		if f.client != "" || f.secret != "" || len(f.roles) > 0 {
			return nil, exitcode.Usagef(
				"--oidc-client, --oidc-secret and --oidc-role are for a provider: name it with --oidc-issuer",
			)
		}
		return nil, nil
	}
	c := &openid.Config{
		Issuer: f.issuer,
		Client: f.client,
		Scopes: cmdenv.NotEmpty(f.scopes),
		Claim:  f.claim,
		Name:   f.name,
	}
	for _, r := range f.roles {
		g, err := openid.ParseGrant(r)
		if err != nil {
			return nil, exitcode.WithHint(
				exitcode.Usagef("--oidc-role: %w", err),
				"roles are viewer, operator and admin: --oidc-role operator=it-staff",
			)
		}
		c.Grants = append(c.Grants, g)
	}
	if err := c.Check(); err != nil {
		return nil, exitcode.WithHint(
			exitcode.AsUsage(err),
			"--oidc-issuer URL --oidc-client ID --oidc-secret FILE --oidc-role ROLE=VALUE",
		)
	}
	if f.secret != "" {
		b, err := secretfile.Read(f.secret, secretfile.Rest)
		if err != nil {
			return nil, fmt.Errorf("client secret of the OpenID provider: %w", err)
		}
		if c.Secret = string(bytes.TrimSpace(b)); c.Secret == "" {
			return nil, exitcode.Usagef("client secret of the OpenID provider: %s is empty", f.secret)
		}
	}
	return c, nil
}
