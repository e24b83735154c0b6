package server

import (
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/netboot"
	"pando/internal/store"
	"pando/internal/trace"
)

// check verifies a boot from its initramfs to the manifest, like a node, and returns its assignment.
func (n *node) check(version fleet.Digest) (api.BootConfig, fleet.Assignment, error) {
	n.t.Helper()
	cfg := n.load()
	a := checkAssignment(n.t, cfg, n.register(cfg))
	return cfg, a, n.trusts(cfg, a, version)
}

// trusts returns nil if a node with that trust accepts a version as the server has it now.
func (n *node) trusts(cfg api.BootConfig, a fleet.Assignment, version fleet.Digest) error {
	n.t.Helper()
	_, manifest := n.get("/m/" + strings.TrimPrefix(string(version), "sha256:"))
	_, signature := n.get("/m/" + strings.TrimPrefix(string(version), "sha256:") + ".minisig")
	_, err := image.Trust{Keys: cfg.TrustKeys, Revoked: a.RevokedKeys}.Verify(manifest, signature)
	return err
}

// TestKeyRotationWithoutAFlagDay: nodes with the old trust and with the new one boot the same version at every moment.
func TestKeyRotationWithoutAFlagDay(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	_, version := s.addImage()
	n := s.node(1)
	before, assigned, err := n.check(version)
	if err != nil || len(before.TrustKeys) != 1 || len(assigned.RevokedKeys) != 0 {
		t.Fatalf("%+v, %v", before.TrustKeys, err)
	}
	if dry, err := c.RotateKey(t.Context(), "next", api.KeyUse{DryRun: true}); err != nil || len(dry.Without) != 1 ||
		!dry.DryRun {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	ch, err := c.RotateKey(t.Context(), "next", api.KeyUse{})
	if err != nil || ch.Signed != 1 || len(ch.Without) != 0 || ch.Key.State != api.KeySigns {
		t.Fatalf("%+v, %v", ch, err)
	}
	if again, err := c.RotateKey(t.Context(), "next", api.KeyUse{}); err != nil || again.Signed != 0 {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	s.restart() // the change is on disk
	c = operatorOf(t, s)
	n = s.node(2)
	after, assigned, err := n.check(version)
	if err != nil || !slices.Equal(after.TrustKeys, []string{ch.Key.Public, before.TrustKeys[0]}) {
		t.Errorf("%v, %v", after.TrustKeys, err)
	}
	if err := n.trusts(before, assigned, version); err != nil {
		t.Errorf("a node that does not know the new key yet: %v", err)
	}
	k, err := c.Keys(t.Context())
	if err != nil || len(k.Signing) != 2 || k.Site != ch.Key.Public || k.Signing[1].State != api.KeyTrusted ||
		k.Signing[1].Versions != 1 ||
		k.Signing[1].Only != 0 {
		t.Errorf("%+v, %v", k, err)
	}
	gone, err := c.RevokeKey(t.Context(), "site", api.KeyUse{})
	if err != nil || len(gone.Without) != 0 || gone.Key.State != api.KeyRevoked {
		t.Fatalf("%+v, %v", gone, err)
	}
	last, assigned, err := s.node(3).check(version)
	if err != nil || !slices.Equal(last.TrustKeys, []string{ch.Key.Public}) ||
		!slices.Equal(assigned.RevokedKeys, before.TrustKeys) {
		t.Errorf("%v, revoked %v, %v", last.TrustKeys, assigned.RevokedKeys, err)
	}
	if err := n.trusts(before, assigned, version); err == nil {
		t.Error("a boot medium that trusts only the revoked key still boots")
	}
}

// TestRevokedKeyBootsNothing: screen and timeline of the machine say why, and what to do.
func TestRevokedKeyBootsNothing(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	_, version := s.addImage()
	old := s.read(version)
	if _, err := c.RotateKey(t.Context(), "next", api.KeyUse{}); err != nil {
		t.Fatal(err)
	}
	both := s.read(version)
	if err := s.store.PutSignature(version, old.Signature); err != nil { // like a copied version
		t.Fatal(err)
	}
	_, err := c.RevokeKey(t.Context(), "site", api.KeyUse{})
	wantCode(t, err, api.Conflict, "signed by no other trusted key than site")
	if dry, err := c.RevokeKey(t.Context(), "site", api.KeyUse{DryRun: true}); err != nil || len(dry.Without) != 1 ||
		len(dry.Without[0].InUse) == 0 {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	if _, err := c.RevokeKey(t.Context(), "site", api.KeyUse{Force: true}); err != nil {
		t.Fatal(err)
	}
	n := s.node(1)
	n.exchange(netboot.IPXE)
	script := n.script()
	for _, want := range []string{"revoked", "build this one again"} {
		if !strings.Contains(script, want) {
			t.Errorf("the screen does not say %q:\n%s", want, script)
		}
	}
	b, err := c.NodeBoot(t.Context(), "node001")
	if err != nil ||
		!slices.ContainsFunc(
			b.Events,
			func(e trace.Event) bool { return strings.Contains(e.Message, "revoked") && e.Hint != "" },
		) {
		t.Errorf("timeline: %+v, %v", b.Events, err)
	}
	_, err = c.AddVersion(t.Context(), "other", api.VersionAdd{Version: version})
	wantCode(t, err, api.BadRequest, "revoked")
	_, err = c.AddSignature(t.Context(), api.SignatureAdd{Version: version, Signature: string(old.Signature)})
	wantCode(t, err, api.BadRequest, "revoked")
	if k, err := c.AddSignature(t.Context(),
		api.SignatureAdd{Version: version, Signature: string(both.Signature)}); err != nil ||
		k.Name != "next" {
		t.Errorf("%+v, %v", k, err)
	}
	if _, _, err := s.node(2).check(version); err != nil {
		t.Errorf("signed by the key that is trusted: %v", err)
	}
	_, err = c.RevokeKey(t.Context(), "next", api.KeyUse{Force: true})
	wantCode(t, err, api.Conflict, "only key")
	_, err = c.RevokeKey(t.Context(), "none", api.KeyUse{})
	wantCode(t, err, api.NotFound, "none")
	_, err = c.RotateKey(t.Context(), "site", api.KeyUse{})
	wantCode(t, err, api.Conflict, "revoked")
}

func (s *site) read(v fleet.Digest) store.Version {
	s.t.Helper()
	out, err := s.store.GetVersion(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// TestBootPackOutlivesItsKey: the pack is signed again together with the versions.
func TestBootPackOutlivesItsKey(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	m, version := s.addRoot(map[string][]byte{"file": program(1, 100_000)})
	reads := s.readsOf(m, "file")
	for i := range byte(2) {
		_, send := s.boot(i+1, "PC")
		if e := send(api.TraceRequest{Version: version, Reads: trace.EncodeReads(reads)}); e != nil {
			t.Fatal(e)
		}
	}
	before := s.packed(version, "", func(r bootpack.Record) bool { return r.Boots == 2 })
	if _, err := c.RotateKey(t.Context(), "next", api.KeyUse{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RevokeKey(t.Context(), "site", api.KeyUse{}); err != nil {
		t.Fatal(err)
	}
	a, _ := s.boot(9, "PC")
	if a.Pack == nil || a.Pack.Object != before.Object.String() {
		t.Fatalf("pack %+v, before %+v", a.Pack, before)
	}
	s.verified(a)
	if report, err := s.store.Check(t.Context(), s.keys.Ring.Trust().Accepted(), nil); err != nil ||
		len(report.Problems) > 0 {
		t.Errorf("%v, %v", report.Problems, err)
	}
}
