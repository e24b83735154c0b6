package identity

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pando/internal/image"
)

var when = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// reopened returns the ring as read from disk.
func reopened(t *testing.T, dir string) *Ring {
	t.Helper()
	k, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return k.Ring
}

// TestRing changes the keys of a site, and reads them from disk after each step.
func TestRing(t *testing.T) {
	dir := t.TempDir()
	r := reopened(t, dir)
	old := r.Keys()[0]
	if old.Name != "site" || len(r.Signers()) != 1 || r.Revoke("site", when) == nil {
		t.Fatalf("a new site has %+v", r.Keys())
	}
	next, err := r.Add("next", "", when)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(filepath.Join(dir, next.Secret)); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("secret half: %v, %v", fi, err)
	}
	_, away := newPublic(t)
	if _, err := r.Add("vault", away, when); err != nil {
		t.Fatal(err)
	}
	for name, public := range map[string]string{"next": "", "other": next.Public, "site": ""} {
		if _, err := r.Add(name, public, when); !errors.Is(err, ErrKeyTaken) {
			t.Errorf("a second %s: %v", name, err)
		}
	}
	if err := r.Use("next"); err != nil {
		t.Fatal(err)
	}
	r = reopened(t, dir)
	if got := r.Trust(); !slices.Equal(got.Keys, []string{next.Public, old.Public, away}) || len(got.Revoked) != 0 {
		t.Errorf("trusted are %v", got)
	}
	if k, err := r.Find("vault"); err != nil || r.Here(k) || len(r.Signers()) != 2 {
		t.Errorf("%d keys sign, vault is here: %v, %v", len(r.Signers()), r.Here(k), err)
	}
	if err := errors.Join(r.Revoke("site", when), r.Use("vault")); err != nil {
		t.Fatal(err)
	}
	r = reopened(t, dir)
	if got := r.Trust(); !slices.Equal(got.Keys, []string{away, next.Public}) ||
		!slices.Equal(got.Revoked, []string{old.Public}) {
		t.Errorf("trusted are %v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, SiteKeyFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the secret half of a revoked key is still there: %v", err)
	}
	for what, err := range map[string]error{"use": r.Use("site"), "revoke": r.Revoke("site", when)} {
		if !errors.Is(err, ErrRevoked) {
			t.Errorf("%s a revoked key: %v", what, err)
		}
	}
	if err := errors.Join(r.Revoke("next", when)); err != nil {
		t.Fatal(err)
	}
	k, err := Open(dir)
	if err != nil || len(k.Ring.Signers()) != 0 || k.SitePublic() != away {
		t.Errorf("every key is elsewhere: %v", err)
	}
	if err := r.Revoke("vault", when); !errors.Is(err, ErrLastKey) {
		t.Errorf("the last key was revoked: %v", err)
	}
}

func newPublic(t *testing.T) (dir, public string) {
	t.Helper()
	dir = t.TempDir()
	return dir, reopened(t, dir).Keys()[0].Public
}

// TestRingIsFull: the number of trusted keys is limited, because a version has a limited number of signatures.
func TestRingIsFull(t *testing.T) {
	r := reopened(t, t.TempDir())
	for i := range image.MaxSignatures {
		_, err := r.Add(string(rune('a'+i)), "", when)
		if want := i == image.MaxSignatures-1; errors.Is(err, ErrManyKeys) != want {
			t.Errorf("key %d: %v", i+2, err)
		}
	}
}

// TestDamagedTrust: a damaged list of trusted keys is an error, and never guessed.
func TestDamagedTrust(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":          "x",
		"a newer format":   `{"format": 2}`,
		"nothing trusted":  `{"format": 1, "keys": []}`,
		"a key is missing": `{"format": 1, "keys": [{"name": "x", "public": "RW", "secret": "x.key"}]}`,
		"another key":      `{"format": 1, "keys": [{"name": "x", "public": "RW", "secret": "site.key"}]}`,
	} {
		dir := t.TempDir()
		reopened(t, dir)
		if err := os.WriteFile(filepath.Join(dir, TrustFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir)
		var k *KeyError
		if !errors.As(err, &k) || k.Hint() == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
