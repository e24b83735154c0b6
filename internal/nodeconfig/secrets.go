package nodeconfig

import (
	"errors"
	"fmt"
	"slices"

	"pando/internal/configfile"
	"pando/internal/fleet"
	"pando/internal/registry"
)

// Claim is what is known of a boot when it is decided whether it gets secrets.
func (n Node) Claim() fleet.Claim {
	return fleet.Claim{
		Policy:   fleet.ValueOf(n.Group.Secrets),
		Approved: !n.Boot.Approved.IsZero(),
		Proof:    n.Boot.Proof,
		Trusted:  n.Node.TPMKey,
	}
}

// ApproveHint is what an operator can do for a boot whose secrets are withheld.
func ApproveHint(n Node) string { return "pando node approve " + n.Node.Name }

// SealedAs is what a secret's value is sealed for.
func SealedAs(name string) string { return "secret " + name }

// Secrets opens the secrets that a boot of a node may have, when a template names them.
func (c *Renderer) Secrets(n Node) configfile.Secret {
	withheld := n.Claim().Withheld()
	return func(name string) (string, error) {
		if name != HostKeyName {
			i := slices.IndexFunc(n.secrets, func(s registry.Secret) bool { return s.Name == name })
			if i < 0 {
				return "", fmt.Errorf("there is no secret %s: set it with `pando secret set`", name)
			}
			if !n.secrets[i].Covers(n.Node, n.classes) {
				return "", fmt.Errorf("secret %s is not for node %s", name, n.Node.Name)
			}
			if withheld == "" {
				value, err := c.Keys.Open(SealedAs(name), n.secrets[i].Sealed)
				if err != nil {
					err = fmt.Errorf("secret %s: %w", name, err)
				}
				return string(value), err
			}
		}
		if withheld != "" {
			return "", errors.New("withheld: " + withheld + " (" + ApproveHint(n) + ")")
		}
		return "", nil // the host key is no text of a template
	}
}
