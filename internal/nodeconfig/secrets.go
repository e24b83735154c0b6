package nodeconfig

import (
	"errors"
	"fmt"
	"slices"

	"pando/internal/configfile"
	"pando/internal/fleet"
	"pando/internal/registry"
)

// Claim returns what decides whether a boot gets secrets.
func (n Node) Claim() fleet.Claim {
	return fleet.Claim{
		Policy:   fleet.ValueOf(n.Group.Secrets),
		Claimed:  slices.Contains(n.Node.Claimed, n.Boot.MAC),
		Approved: !n.Boot.Approved.IsZero(),
		Proof:    n.Boot.Proof,
		Trusted:  n.Node.TPMKey,
	}
}

// ApproveHint returns the command that approves a boot whose secrets are withheld.
func ApproveHint(n Node) string { return "pando node approve " + n.Node.Name }

// notFor returns the error for a secret that a node may not have.
func notFor(s registry.Secret, n fleet.Node) error {
	if c := s.ForClasses(); len(c) > 0 {
		return fmt.Errorf("secret %s is for %s, but a machine's own report of its hardware is no proof: name "+
			"nodes or groups: pando secret set %[1]s --for GROUP", s.Name, c[0])
	}
	return fmt.Errorf("secret %s is not for node %s", s.Name, n.Name)
}

// SealedAs returns the purpose that a secret's value is sealed for.
func SealedAs(name string) string { return "secret " + name }

// Secrets returns a function that opens the secrets that a boot of a node may have.
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
		return "", nil // templates cannot use the host key
	}
}
