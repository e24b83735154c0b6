package image

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
)

// signed returns a manifest with the signatures of some keys.
func signed(t *testing.T, keys ...minisign.PrivateKey) (manifest, signature []byte) {
	t.Helper()
	manifest, err := testManifest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	var files [][]byte
	for _, k := range keys {
		files = append(files, Sign(k, manifest))
	}
	return manifest, JoinSignatures(files...)
}

// TestRotation: during a key rotation a version boots with the old and with the new trust. A version signed only by a
// revoked key does not boot.
func TestRotation(t *testing.T) {
	old, oldKey := newKey(t)
	next, nextKey := newKey(t)
	m, before := signed(t, oldKey)
	_, both := signed(t, nextKey, oldKey)
	_, after := signed(t, nextKey)
	for name, c := range map[string]struct {
		trust     Trust
		signature []byte
		want      error
	}{
		"not moved, not signed again": {Trust{Keys: []string{old}}, before, nil},
		"not moved, signed again":     {Trust{Keys: []string{old}}, both, nil},
		"moved, not signed again":     {Trust{Keys: []string{next, old}}, before, nil},
		"moved, signed again":         {Trust{Keys: []string{next, old}}, both, nil},
		"old key forgotten":           {Trust{Keys: []string{next}}, both, nil},
		"old key revoked":             {Trust{Keys: []string{next, old}, Revoked: []string{old}}, both, nil},
		"by the revoked key only":     {Trust{Keys: []string{next, old}, Revoked: []string{old}}, before, ErrRevoked},
		"by it, and not known":        {Trust{Keys: []string{next}, Revoked: []string{old}}, before, ErrRevoked},
		"by a forgotten key only":     {Trust{Keys: []string{next}}, before, ErrWrongSignature},
		"by a key not known yet":      {Trust{Keys: []string{old}}, after, ErrWrongSignature},
		"nobody is trusted":           {Trust{Keys: []string{old}, Revoked: []string{old}}, before, ErrRevoked},
	} {
		_, err := c.trust.Verify(m, c.signature)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) ||
			errors.Is(err, ErrRevoked) != (c.want == ErrRevoked) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
}

func TestSignaturesOfSeveralKeys(t *testing.T) {
	a, aKey := newKey(t)
	b, bKey := newKey(t)
	m, file := signed(t, aKey, bKey, aKey)
	if all := SplitSignatures(file); len(all) != 2 {
		t.Fatalf("%d signatures", len(all))
	}
	if got := Signers(m, file, []string{b, a}); len(got) != 2 {
		t.Errorf("signed by %v", got)
	}
	if got := OnlyBy(m, file, []string{b}); string(got) != string(Sign(bKey, m)) {
		t.Errorf("signatures of one key: %q", got)
	}
	// What else is in the file neither helps nor harms.
	_, unknownKey := newKey(t)
	otherKey := Sign(aKey, []byte("something else"))
	for _, junk := range [][]byte{Sign(unknownKey, m), otherKey, []byte("1\n2\n3\n4\n")} {
		for _, mixed := range [][]byte{append(bytes.Clone(junk), Sign(aKey, m)...), append(Sign(aKey, m), junk...)} {
			if _, err := Verify(m, mixed, a); err != nil {
				t.Errorf("%q beside a good signature: %v", junk, err)
			}
		}
		if _, err := Verify(m, junk, a); !errors.Is(err, ErrWrongSignature) {
			t.Errorf("%q alone: %v", junk, err)
		}
	}
	var many [][]byte
	for range MaxSignatures + 1 {
		_, k := newKey(t)
		many = append(many, Sign(k, m))
	}
	if joined := JoinSignatures(many...); len(joined) > MaxSignature || !bytes.HasPrefix(joined, many[0]) {
		t.Errorf("%d bytes of signatures", len(joined))
	}
	if _, err := Verify(m, bytes.Join(append(many, Sign(aKey, m)), nil), a); err != nil {
		t.Errorf("behind many: %v", err)
	}
	if text, err := ParseKey("untrusted comment: minisign public key\n" + a + "\n"); err != nil || text != a {
		t.Errorf("public key file: %q %v", text, err)
	}
}

// TestStockMinisignWithSeveralKeys: minisign verifies a version that several keys signed, by the first signature, and
// by another one alone. A signature by minisign with a new key is accepted.
func TestStockMinisignWithSeveralKeys(t *testing.T) {
	program, err := exec.LookPath("minisign")
	if err != nil {
		t.Skip("minisign is not installed (Debian package minisign)")
	}
	a, aKey := newKey(t)
	b, bKey := newKey(t)
	m, file := signed(t, aKey, bKey)
	dir := t.TempDir()
	path := filepath.Join(dir, "m.json")
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (string, error) {
		cmd := exec.Command(program, args...)
		cmd.Stdin = strings.NewReader("\n\n\n")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	write(path, m)
	write(path+".minisig", file)
	if out, err := run("-Vm", path, "-P", a); err != nil {
		t.Errorf("by the first key: %v\n%s", err, out)
	}
	if out, err := run("-Vm", path, "-P", b); err == nil {
		t.Errorf("minisign reads the second signature too; say so in docs/formats/manifest.md\n%s", out)
	}
	write(filepath.Join(dir, "second"), OnlyBy(m, file, []string{b}))
	if out, err := run("-Vm", path, "-x", filepath.Join(dir, "second"), "-P", b); err != nil {
		t.Errorf("by the second key: %v\n%s", err, out)
	}
	if out, err := run("-G", "-W", "-p", filepath.Join(dir, "k.pub"), "-s", filepath.Join(dir, "k.sec")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	theirs := filepath.Join(dir, "theirs")
	if out, err := run("-S", "-s", filepath.Join(dir, "k.sec"), "-m", path, "-x", theirs, "-t",
		"pando manifest "+string(Version(m))); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	read := func(path string) []byte {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	key, err := ParseKey(string(read(filepath.Join(dir, "k.pub"))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(m, JoinSignatures(file, read(theirs)), key); err != nil {
		t.Errorf("a signature made elsewhere, beside others: %v", err)
	}
}
