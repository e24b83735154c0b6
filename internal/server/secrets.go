package server

import (
	"errors"
	"fmt"
	"slices"

	"pando/internal/configfile"
	"pando/internal/fleet"
	"pando/internal/registry"
)

// claim is what is known of a boot when it is decided whether it gets secrets.
func (n nodeConfig) claim() fleet.Claim {
	return fleet.Claim{
		Policy:   fleet.ValueOf(n.group.Secrets),
		Approved: !n.boot.Approved.IsZero(),
		Proof:    n.boot.Proof,
		Trusted:  n.node.TPMKey,
	}
}

// approveHint is what an operator can do for a boot whose secrets are withheld.
func approveHint(n nodeConfig) string { return "pando node approve " + n.node.Name }

// sealedAs is what a secret's value is sealed for.
func sealedAs(name string) string { return "secret " + name }

// secrets opens the secrets that a boot of a node may have, when a template names them.
func (c *configs) secrets(n nodeConfig) configfile.Secret {
	withheld := n.claim().Withheld()
	return func(name string) (string, error) {
		if name != hostKeyName {
			i := slices.IndexFunc(n.secrets, func(s registry.Secret) bool { return s.Name == name })
			if i < 0 {
				return "", fmt.Errorf("there is no secret %s: set it with `pando secret set`", name)
			}
			if !n.secrets[i].Covers(n.node, n.classes) {
				return "", fmt.Errorf("secret %s is not for node %s", name, n.node.Name)
			}
			if withheld == "" {
				value, err := c.keys.Open(sealedAs(name), n.secrets[i].Sealed)
				if err != nil {
					err = fmt.Errorf("secret %s: %w", name, err)
				}
				return string(value), err
			}
		}
		if withheld != "" {
			return "", errors.New("withheld: " + withheld + " (" + approveHint(n) + ")")
		}
		return "", nil // the host key is no text of a template
	}
}
