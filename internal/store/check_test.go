package store

import (
	"os"
	"strings"
	"testing"

	"aead.dev/minisign"

	"pando/internal/chunk"
)

func TestCheck(t *testing.T) {
	pub, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(t *testing.T, name string) {
		t.Helper()
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		harm func(t *testing.T, d *Dir, v Version, ids map[string]chunk.ID)
		want string // in a problem; "": none
	}{
		"whole": {func(*testing.T, *Dir, Version, map[string]chunk.ID) {}, ""},
		"flipped": {func(t *testing.T, d *Dir, _ Version,
			ids map[string]chunk.ID) {
			flip(t, d.ObjectPath(ids["a"]))
		}, "not what was written"},
		"truncated": {func(t *testing.T, d *Dir, _ Version, ids map[string]chunk.ID) {
			if err := os.Truncate(d.ObjectPath(ids["page"]), 3); err != nil {
				t.Fatal(err)
			}
		}, "index page 0 is broken"},
		"no chunk": {func(_ *testing.T, d *Dir, _ Version,
			ids map[string]chunk.ID) {
			os.Remove(d.ObjectPath(ids["b"]))
		}, "a chunk is missing"},
		"no root": {func(_ *testing.T, d *Dir, _ Version,
			ids map[string]chunk.ID) {
			os.Remove(d.ObjectPath(ids["root"]))
		}, "the index root is missing"},
		"no kernel": {func(_ *testing.T, d *Dir, _ Version,
			ids map[string]chunk.ID) {
			os.Remove(d.ObjectPath(ids["kernel"]))
		}, "the kernel is missing"},
		"unsigned": {func(_ *testing.T, d *Dir, v Version,
			_ map[string]chunk.ID) {
			os.Remove(d.SignaturePath(v.Digest))
		}, "no signature"},
		"wrongly signed": {func(t *testing.T, d *Dir, v Version, _ map[string]chunk.ID) {
			flip(t, d.SignaturePath(v.Digest))
		}, "wrong signature"},
		"changed manifest": {func(t *testing.T, d *Dir, v Version,
			_ map[string]chunk.ID) {
			flip(t, d.ManifestPath(v.Digest))
		}, "was changed"},
		"stranger": {func(t *testing.T, d *Dir, _ Version, _ map[string]chunk.ID) {
			if err := os.WriteFile(d.objects()+"/README", nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "is no object"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			v, ids := putVersion(t, d, key)
			putObject(t, d, []byte("unused"))
			c := c
			c.harm(t, d, v, ids)
			r, err := d.Check(t.Context(), []string{pub.String()}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var text []string
			for _, p := range r.Problems {
				text = append(text, p.String())
			}
			all := strings.Join(text, "\n")
			if c.want == "" && (all != "" || r.Versions != 1 || r.Objects != 6 || r.Unused != 1) {
				t.Errorf("whole store: %+v", r)
			}
			if c.want != "" && !strings.Contains(all, c.want) {
				t.Errorf("problems %q, want one with %q", all, c.want)
			}
		})
	}
}
