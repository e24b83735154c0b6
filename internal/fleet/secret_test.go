package fleet

import (
	"strings"
	"testing"
)

// TestClaim: which boots get secrets, for every policy and every state of knowledge.
func TestClaim(t *testing.T) {
	keys := []string{"", "right", "wrong"}
	for _, policy := range []SecretPolicy{"", SecretsMAC, SecretsApprove, SecretsApprove + ",wait", SecretsTPM,
		SecretsTPM + ",wait", "none"} {
		for _, approved := range []bool{false, true} {
			for _, proof := range keys {
				for _, trusted := range []string{"", "right"} {
					claimed := proof == "wrong" // on both sides of each policy
					c := Claim{policy, approved, proof, trusted, claimed}
					want := false
					switch policy {
					case "", SecretsMAC:
						want = !claimed
					case SecretsApprove, SecretsApprove + ",wait":
						want = approved
					case SecretsTPM, SecretsTPM + ",wait":
						want = proof == "right" && trusted == "right"
					}
					if got := c.Withheld() == ""; got != want {
						t.Errorf("%+v: secrets %v, want %v", c, got, want)
					}
				}
			}
		}
	}
}

func TestSecretPolicyValidate(t *testing.T) {
	for p, good := range map[SecretPolicy]bool{"": true, "mac": true, "approve-each-boot": true, "tpm": true,
		"tpm,wait":               true,
		"approve-each-boot,wait": true, "mac,wait": false, ",wait": false, "none": false, "tpm,wait,wait": false} {
		if err := p.Validate(); (err == nil) != good {
			t.Errorf("%q: %v", p, err)
		}
	}
	if !(SecretPolicy("tpm,wait")).Wait() || SecretPolicy("tpm").Wait() {
		t.Error("wait is not read")
	}
}

func TestSecretValidate(t *testing.T) {
	for _, s := range []Secret{{Name: ""}, {Name: "a b"}, {Name: "a", For: []Scope{{Kind: "x"}}}} {
		if s.Validate() == nil {
			t.Errorf("taken: %+v", s)
		}
	}
	s := Secret{Name: "munge", For: []Scope{{Kind: ForGroup, Name: "lab"}, {Kind: ForNode, Name: "pc1"}}}
	if s.Validate() != nil || !s.Covers(Node{Name: "pc1"}) || !s.Covers(Node{Name: "pc2", Group: "lab"}) ||
		s.Covers(Node{Name: "pc2"}) {
		t.Errorf("%+v is for others", s)
	}
}

// A class gives no secrets, because any machine can report any hardware.
func TestSecretsAreNotForClasses(t *testing.T) {
	s := Secret{Name: "munge", For: []Scope{{Kind: ForClass, Name: "gpu"}, {Kind: ForNode, Name: "pc1"}}}
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "name groups or nodes") {
		t.Errorf("declared for a class: %v", err)
	}
	if !s.Covers(Node{Name: "pc1"}) || s.Covers(Node{Name: "gpu"}) {
		t.Errorf("%+v is for others", s)
	}
}
