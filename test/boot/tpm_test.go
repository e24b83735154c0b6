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

// A machine whose TPM an operator approved gets its secrets, at once and at its next boot; another machine with the same MAC, and
// one without a TPM, boot without them and say why.
func TestRealBootWithTPM(t *testing.T) {
	needFull(t)
	if _, err := exec.LookPath("swtpm"); err != nil {
		t.Skip("swtpm is not installed")
	}
	s := newSite(t, "own")
	group := []fleet.Scope{{Kind: fleet.ForGroup, Name: bookworm}}
	if _, err := s.API.SetSecret(t.Context(), api.SecretSet{Name: "munge", Value: []byte("not for everybody\n"), For: &group}); err != nil {
		t.Fatal(err)
	}
	policy := fleet.SecretsTPM
	if _, err := s.API.SetGroup(t.Context(), bookworm, api.GroupSet{Secrets: &policy}); err != nil {
		t.Fatal(err)
	}
	s.declare("@"+bookworm, "/etc/lab/key", `{{secret "munge"}}`, api.ConfigSet{ConfigFile: fleet.ConfigFile{Run: "cp /etc/lab/key /run/lab-key"}})

	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 9, 0, 1}, firmware: testkit.BIOS, group: bookworm, tpm: filepath.Join(s.dir, "right")}
	m := s.boot(n)
	s.withheld(n, "the key of this machine's TPM waits for an operator's approval")
	if _, err := s.API.ApproveNodes(t.Context(), api.NodeSelection{Select: n.name}); err != nil {
		t.Fatal(err)
	}
	synced, err := s.API.SyncNodes(t.Context(), api.SyncRequest{Select: n.name})
	if err != nil || len(synced) != 1 || synced[0].Error != "" || len(synced[0].Files) != 2 {
		t.Fatalf("sync: %+v, %v", synced, err)
	}
	const look = "cat /etc/lab/key; stat -c '%U %a' /etc/lab/key"
	if got := s.run(s.shell(n), look+"; cat /run/lab-key"); got != "not for everybody\nroot 600\nnot for everybody" {
		t.Errorf("after sync: %s", got)
	}
	s.powerOff(m)

	m = s.again(n)
	if got := s.run(s.shell(n), look); got != "not for everybody\nroot 600" {
		t.Errorf("at the next boot: %s", got)
	}
	s.powerOff(m)

	forged := n
	forged.tpm = filepath.Join(s.dir, "forged")
	m = s.again(forged)
	s.withheld(n, "this machine's TPM has not the key that was approved")
	logError(t, m.Close())

	bare := n
	bare.tpm = ""
	s.again(bare)
	s.withheld(n, "this boot has proved no key of a TPM")
}

// again boots a machine of a node that booted before.
func (s *site) again(n node) *testkit.Machine {
	s.t.Helper()
	v, err := s.API.Node(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	m, booted := s.powerOn(n)
	s.wait(n.name, bootTimeout, m, func(now api.Node) bool {
		return now.Boot != nil && now.Boot.ID != v.Boot.ID && now.Boot.State == trace.Up
	})
	booted()
	return m
}

// withheld checks that a node has no secrets, and says so.
func (s *site) withheld(n node, why string) {
	s.t.Helper()
	v, err := s.API.Node(s.t.Context(), n.name)
	if err != nil || !strings.HasPrefix(v.Withheld, why) {
		s.t.Errorf("withheld: %q, %v; want %q", v.Withheld, err, why)
	}
	if old := strings.Join(v.ConfigOld, " "); old != "" {
		s.t.Errorf("files that are old: %s", old)
	}
	b, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	told := map[string]bool{}
	for _, e := range b.Events {
		told["key"] = told["key"] || strings.HasPrefix(e.Message, "without config file /etc/lab/key of group:"+n.group) && strings.Contains(e.Message, "withheld: "+why)
		told["host"] = told["host"] || strings.HasPrefix(e.Message, "without its ssh host key: withheld: "+why)
	}
	if !told["key"] || !told["host"] {
		s.t.Errorf("the timeline does not tell that secrets are withheld: %v", told)
	}
}
