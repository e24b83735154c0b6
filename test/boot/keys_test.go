package boot

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// The site gets a new key. Machines boot before, afterwards, and after the old key is revoked. A version that only the
// revoked key signed boots on no machine: the server says so on the screen, or the machine on its console. Machines
// refuse damaged data of a store.
func TestRealBootWithKeysRotatedAndADamagedStore(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own", "--netconsole", ":6666")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 0x4b, 0, 1}, firmware: testkit.BIOS, group: bookworm}
	s.announce(n)
	record, err := s.API.Node(t.Context(), n.name)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(
		s.Config.Data,
		"store",
		"manifests",
		strings.TrimPrefix(string(record.Desired), "sha256:")+".minisig",
	)
	old := s.read(file)
	ch, err := s.API.RotateKey(t.Context(), "next", api.KeyUse{})
	if err != nil || ch.Signed < 2 {
		t.Fatalf("%+v, %v", ch, err)
	}
	both := s.read(file)
	m := s.bootDamaged(n, record.Desired)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	s.write(file, old)
	if gone, err := s.API.RevokeKey(t.Context(), "site", api.KeyUse{Force: true}); err != nil ||
		len(gone.Without) != 1 {
		t.Fatalf("%+v, %v", gone, err)
	}
	s.refusedByAll(n, record.Desired, file, old, both)
}

// refusedByAll boots a machine whose version only the revoked key signed. It is refused twice: when it requests its
// script, and when it has its kernel.
func (s *site) refusedByAll(n node, version fleet.Digest, file string, old, both []byte) {
	s.t.Helper()
	m, booted := s.powerOn(n)
	e := s.waitEvent(n.name, m, func(e trace.Event) bool { return e.Kind == trace.Fail && e.Stage == trace.Script })
	if !strings.Contains(e.Message, "revoked") || !strings.Contains(e.Hint, "build this one again") {
		s.t.Errorf("the server says %q, hint %q", e.Message, e.Hint)
	}
	s.says(m, "Pando: .*cannot boot")
	s.says(m, "manifest [0-9a-f]{12}: wrong signature: the key is revoked")
	if k, err := s.API.AddSignature(s.t.Context(),
		api.SignatureAdd{Version: version, Signature: string(both)}); err != nil ||
		k.Name != "next" {
		s.t.Fatalf("%+v, %v", k, err)
	}
	s.waitEvent(n.name, m, func(e trace.Event) bool { return e.Stage == trace.Script && e.Kind == trace.End })
	s.write(file, old)
	s.failedAt(n, m, "revoked", "a revoked key signed this version")
	s.says(m, "manifest FAILED, attempt 1")
	s.says(m, "what: .*the key is revoked: signed by key [0-9A-F]{16} only")
	s.says(m, "to do: .*a revoked key signed this version")
	s.write(file, both)
	s.waitUp(n, m)
	booted()
}

// says waits until a machine's console has a line.
func (s *site) says(m *testkit.Machine, pattern string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	if _, err := m.Console.Wait(ctx, pattern); err != nil {
		s.t.Errorf("%v\nconsole:\n%s", err, m.Console.Tail(30))
	}
}
