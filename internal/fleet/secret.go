package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxSecret bounds the value of a secret, in bytes.
const MaxSecret = 64 << 10

// Secret is a value that config files of some nodes may contain. The value itself is stored apart from it.
type Secret struct {
	Name    string    `json:"name"`
	For     []Scope   `json:"for"` // nodes that may have it; empty: no node
	Changed time.Time `json:"changed,omitzero"`
}

// Validate returns an error for the first invalid field of a secret.
func (s Secret) Validate() error {
	if err := ValidName("secret", s.Name); err != nil {
		return err
	}
	for _, f := range s.For {
		if err := f.Validate(); err != nil {
			return fmt.Errorf("secret %s: %w", s.Name, err)
		}
	}
	if c := s.ForClasses(); len(c) > 0 {
		return fmt.Errorf("secret %s: %s: any machine can say that it has some hardware: name groups or nodes", s.Name,
			c[0])
	}
	return nil
}

// ForClasses returns the hardware classes in s.For. Old declarations may have them; they give the secret to no node.
func (s Secret) ForClasses() (out []Scope) {
	for _, f := range s.For {
		if f.Kind == ForClass {
			out = append(out, f)
		}
	}
	return out
}

// Covers reports whether a node may have the secret. Hardware classes do not count: a machine could report any
// hardware.
func (s Secret) Covers(n Node) bool {
	return slices.ContainsFunc(s.For, func(f Scope) bool { return f.Covers(n, nil) })
}

// SecretPolicy says what a boot must prove before it gets secrets. With ",wait" a boot waits until it has proved it;
// otherwise it continues without secrets.
type SecretPolicy string

// The secret policies.
const (
	SecretsMAC     SecretPolicy = "mac"               // its MAC address, which is easily forged: trusts the network
	SecretsApprove SecretPolicy = "approve-each-boot" // nothing: an operator approves each boot
	// that the machine holds the TPM key that an operator approved
	SecretsTPM SecretPolicy = "tpm"
)

const secretsWait = ",wait"

// Effective returns p, or the default if it is empty.
func (p SecretPolicy) Effective() SecretPolicy {
	if p == "" {
		return SecretsMAC
	}
	return p
}

// Wait reports whether a boot waits until it has proved what the policy demands.
func (p SecretPolicy) Wait() bool { return strings.HasSuffix(string(p), secretsWait) }

// Kind returns the policy without ",wait".
func (p SecretPolicy) Kind() SecretPolicy {
	return SecretPolicy(strings.TrimSuffix(string(p.Effective()), secretsWait))
}

// Validate returns an error for an invalid policy.
func (p SecretPolicy) Validate() error {
	switch p.Kind() {
	case SecretsApprove, SecretsTPM:
		return nil
	case SecretsMAC:
		if !p.Wait() {
			return nil
		}
	}
	return fmt.Errorf("secrets %q: want mac, approve-each-boot or tpm, the last two perhaps with ,wait", string(p))
}

// Claim is what the server knows about a boot when it decides whether the boot gets secrets.
type Claim struct {
	Policy   SecretPolicy
	Approved bool   // an operator approved this boot
	Proof    string // public key of the TPM that signed the registration; "": none did
	Trusted  string // public key of the TPM that an operator approved for the node; "": none
	Claimed  bool   // only the serial number that the machine reports makes it the node: see Node.Claimed
}

// Withheld returns why the boot gets no secrets, or "".
func (c Claim) Withheld() string {
	switch c.Policy.Kind() {
	case SecretsMAC:
		if c.Claimed {
			return "only the serial number that it reports makes this machine the node: it waits for an operator's " +
				"approval"
		}
		return ""
	case SecretsApprove:
		if c.Approved {
			return ""
		}
		return "this boot waits for an operator's approval"
	case SecretsTPM:
		switch {
		case c.Proof == "":
			return "this boot has proved no key of a TPM"
		case c.Trusted == "":
			return "the key of this machine's TPM waits for an operator's approval"
		case c.Proof == c.Trusted:
			return ""
		}
		return "this machine's TPM has not the key that was approved: it is another machine, or its TPM was cleared"
	}
	return "the policy is not known"
}
