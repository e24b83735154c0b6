package initrd

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"os"
	"pando/internal/hint"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The cpio of each node's program is packed once. A damaged one is packed again.
func TestProgramIsKept(t *testing.T) {
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
		found, err := FindPrograms(program, dir)
		if err != nil {
			t.Fatal(err)
		}
		a := found[runtime.GOARCH]
		if err := a.Prepare(t.Context()); err != nil {
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
	// Other content with its digest is served after the next start, so nothing was packed again.
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

// elfOf returns the head of a program for a machine, with bytes that distinguish programs.
func elfOf(t *testing.T, machine elf.Machine, content string) []byte {
	t.Helper()
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), content...)
}

// A node gets the program of its image's architecture, whatever the server's machine is. If there is none, the error
// says so.
func TestProgramOfEachArchitecture(t *testing.T) {
	dir := t.TempDir()
	foreign, machine, other := "arm64", elf.EM_AARCH64, elf.EM_X86_64
	if runtime.GOARCH == foreign {
		foreign, machine, other = "amd64", elf.EM_X86_64, elf.EM_AARCH64
	}
	put := func(name string, m elf.Machine) {
		if err := os.WriteFile(filepath.Join(dir, name), elfOf(t, m, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put("pando-init", other)
	named := filepath.Join(dir, "pando-init")
	found, err := FindPrograms(named, dir)
	if err != nil || found.Has(runtime.GOARCH) != nil || found[runtime.GOARCH].path != named {
		t.Fatalf("%v, %v", found, err)
	}
	if _, err := found.Get(t.Context(), foreign); err == nil || !strings.Contains(err.Error(), "pando-init-"+foreign) ||
		hint.Of(err) == "" {
		t.Errorf("without a program for %s: %v", foreign, err)
	}
	put("pando-init-"+foreign, machine)
	if found, err = FindPrograms(named, dir); err != nil {
		t.Fatal(err)
	}
	if err := found[runtime.GOARCH].Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	cpios := map[string]bool{}
	for _, a := range []string{runtime.GOARCH, foreign} {
		cpio, err := found.Get(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		cpios[string(cpio)] = true
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, "*.cpio")); len(cpios) != 2 || len(kept) != 2 {
		t.Errorf("%d cpios, kept: %v", len(cpios), kept)
	}
	if _, err := FindPrograms(filepath.Join(dir, "none"), dir); err == nil {
		t.Error("a program that is not there was taken")
	}
}
