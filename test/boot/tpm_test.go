package boot

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// A machine whose TPM an operator approved gets its secrets. Another machine with the same MAC, and one without a TPM,
// boot without them and say why. Each boot is checked when its files are in place, and then switched off.
func TestRealBootWithTPM(t *testing.T) {
	needFull(t)
	if _, err := exec.LookPath("swtpm"); err != nil {
		t.Skip("swtpm is not installed")
	}
	s := newSite(t, "own")
	s.addSecret("not for everybody\n", fleet.SecretsTPM)
	n := node{
		name:     "pc001",
		mac:      fleet.MAC{0x52, 0x54, 0, 9, 0, 1},
		firmware: testkit.BIOS,
		group:    bookworm,
		tpm:      filepath.Join(s.dir, "right"),
	}
	s.announce(n)
	s.configured(n)
	s.withheld(n, "the key of this machine's TPM waits for an operator's approval")
	if _, err := s.API.ApproveNodes(t.Context(), api.NodeSelection{Select: n.name}); err != nil {
		t.Fatal(err)
	}
	s.configured(n)
	if v, err := s.API.Node(t.Context(), n.name); err != nil || v.Withheld != "" || len(v.ConfigOld) > 0 ||
		v.Proof == "" ||
		v.Proof != v.TPMKey {
		t.Errorf("the machine that was approved: %+v, %v", v, err)
	}
	for _, e := range s.events(n) {
		if strings.HasPrefix(e.Message, "without ") {
			t.Errorf("the machine that was approved boots %s", e.Message)
		}
	}
	forged := n
	forged.tpm = filepath.Join(s.dir, "forged")
	s.configured(forged)
	s.withheld(n, "this machine's TPM has not the key that was approved")
	forged.tpm = ""
	s.configured(forged)
	s.withheld(n, "this boot has proved no key of a TPM")
}

// addSecret sets a secret of the group bookworm, a config file that contains it, and the group's policy.
func (s *site) addSecret(value string, policy fleet.SecretPolicy) {
	s.t.Helper()
	group := []fleet.Scope{{Kind: fleet.ForGroup, Name: bookworm}}
	if _, err := s.API.SetSecret(s.t.Context(),
		api.SecretSet{Name: "munge", Value: []byte(value), For: &group}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.API.SetGroup(s.t.Context(), bookworm,
		api.GroupSet{Settings: fleet.Settings{Secrets: &policy}}); err != nil {
		s.t.Fatal(err)
	}
	s.declare(
		"@"+bookworm,
		"/etc/lab/key",
		`{{secret "munge"}}`,
		api.ConfigSet{ConfigFile: fleet.ConfigFile{Run: "cp /etc/lab/key /run/lab-key"}},
	)
}

// configured switches a node on, waits until its config files are in place, and switches it off.
func (s *site) configured(n node) {
	s.t.Helper()
	v, err := s.API.Node(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	m, done := s.powerOn(n)
	s.wait(n.name, bootTimeout, m, func(now api.Node) bool {
		return now.Boot != nil && (v.Boot == nil || now.Boot.ID != v.Boot.ID) &&
			(now.Boot.Stage == trace.SwitchRoot || now.Boot.State.Reached())
	})
	logError(s.t, m.Close())
	done()
}

// events returns the events of a node's latest boot.
func (s *site) events(n node) []trace.Event {
	s.t.Helper()
	b, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	return b.Events
}

// withheld checks that a node has no secrets, and reports why.
func (s *site) withheld(n node, why string) {
	s.t.Helper()
	v, err := s.API.Node(s.t.Context(), n.name)
	if err != nil || !strings.HasPrefix(v.Withheld, why) {
		s.t.Errorf("withheld: %q, %v; want %q", v.Withheld, err, why)
	}
	if old := strings.Join(v.ConfigOld, " "); old != "" {
		s.t.Errorf("files that are old: %s", old)
	}
	told := map[string]bool{}
	for _, e := range s.events(n) {
		told["key"] = told["key"] ||
			strings.HasPrefix(e.Message, "without config file /etc/lab/key of group:"+n.group) &&
				strings.Contains(e.Message, "withheld: "+why)
		told["host"] = told["host"] || strings.HasPrefix(e.Message, "without its ssh host key: withheld: "+why)
	}
	if !told["key"] || !told["host"] {
		s.t.Errorf("the timeline does not tell that secrets are withheld: %v", told)
	}
}
