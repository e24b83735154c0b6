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
		Claimed:  slices.Contains(n.Node.Claimed, n.Boot.MAC),
		Approved: !n.Boot.Approved.IsZero(),
		Proof:    n.Boot.Proof,
		Trusted:  n.Node.TPMKey,
	}
}

// ApproveHint is what an operator can do for a boot whose secrets are withheld.
func ApproveHint(n Node) string { return "pando node approve " + n.Node.Name }

// notFor says why a node may not have a secret.
func notFor(s registry.Secret, n fleet.Node) error {
	if c := s.ForClasses(); len(c) > 0 {
		return fmt.Errorf("secret %s is for %s, and no secret is given for what a machine says of its hardware: name "+
			"nodes or groups: pando secret set %[1]s --for GROUP", s.Name, c[0])
	}
	return fmt.Errorf("secret %s is not for node %s", s.Name, n.Name)
}

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
			if !n.secrets[i].Covers(n.Node) {
				return "", notFor(n.secrets[i], n.Node)
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
