package image

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aead.dev/minisign"
)

func newKey(t testing.TB) (public string, private minisign.PrivateKey) {
	t.Helper()
	pub, priv, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return pub.String(), priv
}

func TestVerify(t *testing.T) {
	pub, key := newKey(t)
	other, otherKey := newKey(t)
	m, err := testManifest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	sig := Sign(key, m)
	if _, err := Verify(m, sig, other, pub); err != nil {
		t.Errorf("a good signature: %v", err)
	}
	if string(Sign(key, m)) != string(sig) {
		t.Error("the same key and manifest gave two signatures")
	}

	changed := []byte(strings.Replace(string(m), "6.1.0-56", "6.1.0-57", 1))
	r := minisign.Sign(key, m) // by the right key, but not as a manifest
	flipped := []byte(strings.Replace(string(sig), "\nRU", "\nRX", 1))
	for name, c := range map[string]struct {
		manifest, sig []byte
		want          error
	}{
		"unsigned":          {m, nil, ErrUnsigned},
		"blank":             {m, []byte("\n"), ErrUnsigned},
		"other key":         {m, Sign(otherKey, m), ErrWrongSignature},
		"other manifest":    {changed, sig, ErrWrongSignature},
		"other purpose":     {m, r, ErrWrongSignature},
		"garbage":           {m, []byte("hello"), ErrWrongSignature},
		"flipped":           {m, flipped, ErrWrongSignature},
		"very long":         {m, make([]byte, MaxSignature+1), ErrWrongSignature},
		"manifest too long": {make([]byte, MaxManifest+1), sig, ErrWrongSignature},
	} {
		if _, err := Verify(c.manifest, c.sig, pub); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
	if _, err := Verify(m, sig); err == nil {
		t.Error("a signature was accepted with no trusted key")
	}
}

// TestStockMinisign: minisign verifies the signature, and a signature by minisign is accepted.
func TestStockMinisign(t *testing.T) {
	program, err := exec.LookPath("minisign")
	if err != nil {
		t.Skip("minisign is not installed (Debian package minisign)")
	}
	pub, key := newKey(t)
	m, err := testManifest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "m.json")
	for name, data := range map[string][]byte{file: m, file + ".minisig": Sign(key, m)} {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(program, "-Vm", file, "-P", pub).CombinedOutput(); err != nil {
		t.Fatalf("minisign refuses our signature: %v\n%s", err, out)
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Stdin = strings.NewReader("\n\n\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("minisign %s: %v\n%s", args, err, out)
		}
	}
	run("-G", "-W", "-p", filepath.Join(dir, "k.pub"), "-s", filepath.Join(dir, "k.sec"))
	run("-S", "-s", filepath.Join(dir, "k.sec"), "-m", file, "-t", "pando manifest "+string(Version(m)))
	theirs, err := os.ReadFile(filepath.Join(dir, "k.pub"))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := os.ReadFile(file + ".minisig")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(m, sig, string(theirs)); err != nil {
		t.Errorf("a signature made by minisign: %v", err)
	}
}

// FuzzVerify: of all possible bytes only one signature is accepted. The key is fixed, so that the corpus has
// signatures by it.
func FuzzVerify(f *testing.F) {
	public, key, err := minisign.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{7}, 64)))
	if err != nil {
		f.Fatal(err)
	}
	pub := public.String()
	m, err := testManifest().Encode()
	if err != nil {
		f.Fatal(err)
	}
	good := string(Sign(key, m))
	if _, err := Verify(m, []byte(good), pub); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(good))
	f.Fuzz(func(t *testing.T, sig []byte) {
		if _, err := Verify(m, sig, pub); err == nil && !hasSignature(sig, good) {
			t.Errorf("accepted %q", sig)
		}
	})
}

// hasSignature reports whether a file contains a signature.
func hasSignature(file []byte, good string) bool {
	return slices.ContainsFunc(SplitSignatures(file), func(s []byte) bool { return sameSignature(string(s), good) })
}

// sameSignature compares signatures without the first line, an unsigned comment, and without line ends.
func sameSignature(a, b string) bool {
	strip := func(s string) string {
		_, rest, _ := strings.Cut(s, "\n")
		return strings.Join(strings.Fields(rest), " ")
	}
	return strip(a) == strip(b)
}
