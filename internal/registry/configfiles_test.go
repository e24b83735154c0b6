package registry

import (
	"testing"

	"pando/internal/fleet"
)

// testConfigFiles: a config file for a node, group or class follows a rename, and is deleted with it.
func testConfigFiles(t *testing.T, r *Registry) {
	file := func(kind fleet.ScopeKind, name, path string) fleet.ConfigFile {
		return fleet.ConfigFile{
			For:      fleet.Scope{Kind: kind, Name: name},
			Path:     path,
			Content:  []byte("of " + name),
			Mode:     0o600,
			Owner:    "a:b",
			Run:      "true",
			Verbatim: true,
			Changed:  now,
		}
	}
	must(t, r, func(tx *Tx) error { return tx.CreateGroup(fleet.Group{Name: "lab"}) })
	must(t, r, func(tx *Tx) error {
		return tx.CreateClass(fleet.Class{Name: "vm", Match: fleet.Match{Vendor: []string{"QEMU"}}})
	})
	must(t, r, func(tx *Tx) error { return tx.CreateNode(aNode("pc1", 1)) })
	all, lab, vm, pc1 := file(
		fleet.ForAll,
		"",
		"/etc/b",
	), file(
		fleet.ForGroup,
		"lab",
		"/etc/a",
	), file(
		fleet.ForClass,
		"vm",
		"/etc/a",
	), file(
		fleet.ForNode,
		"pc1",
		"/etc/a",
	)
	for _, f := range []fleet.ConfigFile{pc1, vm, lab, all, all} {
		must(t, r, func(tx *Tx) error { return tx.PutConfigFile(f) })
	}
	same(t, read(t, r, (*Tx).ConfigFiles), []fleet.ConfigFile{lab, vm, pc1, all})
	for _, f := range []fleet.ConfigFile{file(fleet.ForGroup, "none", "/etc/a"),
		file(fleet.ForClass, "none", "/etc/a"), file(fleet.ForNode, "none", "/etc/a")} {
		want(t, r, ErrNotFound, func(tx *Tx) error { return tx.PutConfigFile(f) })
	}
	must(t, r, func(tx *Tx) error {
		n, err := tx.Node("pc1")
		n.Name = "pc2"
		if err == nil {
			err = tx.PutNode("pc1", n)
		}
		return err
	})
	pc1.For.Name = "pc2"
	same(t, read(t, r, (*Tx).ConfigFiles), []fleet.ConfigFile{lab, vm, pc1, all})
	must(t, r, func(tx *Tx) error { return tx.DeleteNode("pc2") })
	must(t, r, func(tx *Tx) error { return tx.DeleteClass("vm") })
	must(t, r, func(tx *Tx) error { return tx.DeleteGroup("lab") })
	same(t, read(t, r, (*Tx).ConfigFiles), []fleet.ConfigFile{all})
	must(t, r, func(tx *Tx) error { return tx.DeleteConfigFile(all.For, all.Path) })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.DeleteConfigFile(all.For, all.Path) })
}

// testSecrets: the scopes of a secret follow renames, and are deleted with the node, group or class.
func testSecrets(t *testing.T, r *Registry) {
	must(t, r, func(tx *Tx) error { return tx.CreateGroup(fleet.Group{Name: "lab"}) })
	must(t, r, func(tx *Tx) error { return tx.CreateNode(aNode("pc1", 1)) })
	lab, pc1 := fleet.Scope{Kind: fleet.ForGroup, Name: "lab"}, fleet.Scope{Kind: fleet.ForNode, Name: "pc1"}
	s := Secret{Secret: fleet.Secret{Name: "munge", For: []fleet.Scope{lab, pc1}, Changed: now}, Sealed: []byte{0, 1}}
	must(t, r, func(tx *Tx) error { return tx.PutSecret(s) })
	s.Sealed = []byte{2}
	must(t, r, func(tx *Tx) error { return tx.PutSecret(s) })
	same(t, read(t, r, (*Tx).Secrets), []Secret{s})
	bad := s
	bad.For = []fleet.Scope{{Kind: fleet.ForGroup, Name: "none"}}
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.PutSecret(bad) })
	must(t, r, func(tx *Tx) error {
		n, err := tx.Node("pc1")
		n.Name, n.TPMKey = "pc2", "key"
		if err == nil {
			err = tx.PutNode("pc1", n)
		}
		return err
	})
	s.For[1].Name = "pc2"
	same(t, read(t, r, func(tx *Tx) (Secret, error) { return tx.Secret("munge") }), s)
	if n := read(t, r, func(tx *Tx) (fleet.Node, error) { return tx.Node("pc2") }); n.TPMKey != "key" {
		t.Errorf("its TPM's key is %q", n.TPMKey)
	}
	must(t, r, func(tx *Tx) error { return tx.DeleteNode("pc2") })
	must(t, r, func(tx *Tx) error { return tx.DeleteGroup("lab") })
	s.For = nil
	same(t, read(t, r, (*Tx).Secrets), []Secret{s})
	must(t, r, func(tx *Tx) error { return tx.DeleteSecret("munge") })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.DeleteSecret("munge") })
	want(t, r, ErrNotFound, func(tx *Tx) error { return tx.ApproveBoot("none", now) })
}
