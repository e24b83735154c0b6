package initramfs

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/api"

	"github.com/klauspost/compress/zstd"
)

var updateCPIO = flag.Bool("update-cpio", false, "rewrite the golden cpio archive")

func sampleCPIO(t *testing.T) []byte {
	t.Helper()
	c := newCPIO()
	c.file("a/b/file", 0o644, []byte("hello"))
	c.dir("a", 0o700) // exists: stays as it was made
	c.dir("empty", 0o711)
	c.symlink("sbin/modprobe", "/init")
	c.file("zero", 0o600, nil)
	raw, err := c.bytes()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestCPIOGolden(t *testing.T) {
	const golden = "testdata/sample.cpio"
	raw := sampleCPIO(t)
	if *updateCPIO {
		if err := os.WriteFile(golden, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(raw, want) {
		t.Errorf("archive differs from %s (-update-cpio rewrites it)", golden)
	}
	if len(raw)%4 != 0 {
		t.Errorf("length %d is not a multiple of four", len(raw))
	}
}

// TestCPIOForeign: cpio(1) can read the archives.
func TestCPIOForeign(t *testing.T) {
	tool, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("cpio is not installed (package cpio)")
	}
	cmd := exec.Command(tool, "--list", "--quiet")
	cmd.Stdin = bytes.NewReader(sampleCPIO(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := "a\na/b\na/b/file\nempty\nsbin\nsbin/modprobe\nzero\n"
	if string(out) != want {
		t.Errorf("cpio lists\n%swant\n%s", out, want)
	}
}

func TestCPIOBadNames(t *testing.T) {
	for _, name := range []string{"/abs", "a/../b", "a//b", "", "./x"} {
		c := newCPIO()
		c.file(name, 0o644, nil)
		if _, err := c.bytes(); err == nil {
			t.Errorf("file %q was taken", name)
		}
	}
}

func TestTrustCPIO(t *testing.T) {
	raw, err := TrustCPIO(api.BootConfig{Format: 1, Boot: "0011223344556677", Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	if len(raw)%4 != 0 || !bytes.HasPrefix(raw, []byte("070701")) {
		t.Error("trust cpio must be plain and padded, since the kernel wants it first in the initramfs")
	}
	start := bytes.IndexByte(raw, '{')
	var cfg api.BootConfig
	if err := json.NewDecoder(bytes.NewReader(raw[start:])).Decode(&cfg); err != nil || cfg.Token != "secret" {
		t.Errorf("boot.json reads as %+v, %v", cfg, err)
	}
	// mode 0100600 of boot.json: the token is for init alone
	if !bytes.Contains(raw, []byte("00008180")) {
		t.Error("boot.json has not mode 0600")
	}
}

func TestAgentCPIO(t *testing.T) {
	if _, err := AgentCPIO(t.Context(), []byte("#!/bin/sh")); err == nil {
		t.Error("a script was taken for pando-init")
	}
	program := append([]byte("\x7fELF"), bytes.Repeat([]byte("agent"), 5000)...)
	packed, err := AgentCPIO(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	again, err := AgentCPIO(t.Context(), program)
	if err != nil || !bytes.Equal(packed, again) {
		t.Error("the same program gives another cpio")
	}
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	raw, err := d.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"init\x00", "sbin/modprobe\x00", "newroot\x00"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("agent cpio has no %q", want)
		}
	}
	if shells, _ := filepath.Match("*bin/sh*", string(raw)); shells {
		t.Error("there is a shell in the agent cpio")
	}
}
