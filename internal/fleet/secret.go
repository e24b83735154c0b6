package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxSecret bounds the value of a secret, in bytes.
const MaxSecret = 64 << 10

// Secret is a value that config files of some nodes may have in them. Its value is kept apart from it.
type Secret struct {
	Name    string    `json:"name"`
	For     []Scope   `json:"for"` // nodes that may have it; none: nobody may
	Changed time.Time `json:"changed,omitzero"`
}

// Validate reports what of a secret cannot be used.
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

// ForClasses are the hardware classes that a secret is for by a declaration of before: nobody gets it by them.
func (s Secret) ForClasses() (out []Scope) {
	for _, f := range s.For {
		if f.Kind == ForClass {
			out = append(out, f)
		}
	}
	return out
}

// Covers reports whether a node may have the secret. What a machine says of its hardware does not count.
func (s Secret) Covers(n Node) bool {
	return slices.ContainsFunc(s.For, func(f Scope) bool { return f.Covers(n, nil) })
}

// SecretPolicy says what a boot must prove before it gets secrets. With ",wait" a boot waits until it has proved it;
// without, it continues without secrets.
type SecretPolicy string

// The secret policies.
const (
	SecretsMAC     SecretPolicy = "mac"               // its MAC address, which anybody can send: this trusts the wire
	SecretsApprove SecretPolicy = "approve-each-boot" // that an operator approves this boot
	// that it holds the key in the TPM of the machine that an operator approved
	SecretsTPM SecretPolicy = "tpm"
)

const secretsWait = ",wait"

// Effective is p, or the default for a group that says nothing.
func (p SecretPolicy) Effective() SecretPolicy {
	if p == "" {
		return SecretsMAC
	}
	return p
}

// Wait reports whether a boot waits until it has proved it.
func (p SecretPolicy) Wait() bool { return strings.HasSuffix(string(p), secretsWait) }

// Kind is what a boot must prove.
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

// Claim is what the server knows of a boot when it decides whether the boot gets secrets.
type Claim struct {
	Policy   SecretPolicy
	Approved bool   // an operator approved this very boot
	Proof    string // public key of the TPM that signed its hello; "": none did
	Trusted  string // that of the machine that an operator approved; "": none
	Claimed  bool   // the machine is the node by the serial number alone that it says: see Node.Claimed
}

// Withheld returns why the boot gets no secrets, or "".
func (c Claim) Withheld() string {
	switch c.Policy.Kind() {
	case SecretsMAC:
		if c.Claimed {
			return "this machine is the node by the serial number alone that it says: it waits for an operator's approval"
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
