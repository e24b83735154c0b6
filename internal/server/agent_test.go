package server

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"
)

// The cpio of the node's program is packed once for each program, and one that was damaged is packed again.
func TestAgentIsKept(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "pando-init")
	kept := func() string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, "agent-*.cpio"))
		if err != nil || len(files) != 1 {
			t.Fatalf("kept: %q, %v", files, err)
		}
		return files[0]
	}
	prepare := func(content string) []byte {
		t.Helper()
		if err := os.WriteFile(program, []byte("\x7fELF"+content), 0o755); err != nil {
			t.Fatal(err)
		}
		a, err := findAgent(program, dir)
		if err == nil {
			err = a.prepare(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return a.cpio
	}
	first := prepare("one")
	file := kept()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Something else with its digest is what comes at the next start: so nothing was packed again.
	other := []byte("other")
	sum := sha256.Sum256(other)
	if err := os.WriteFile(file, append(sum[:], other...), 0o600); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(prepare("one"), other) {
		t.Error("it was packed again")
	}
	whole[40] ^= 1
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(prepare("one"), first) {
		t.Error("a damaged cpio was used")
	}
	if bytes.Equal(prepare("two"), first) || kept() == file {
		t.Error("another program has the first one's cpio")
	}
}
