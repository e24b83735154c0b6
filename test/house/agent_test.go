package house

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/build/initramfs"
)

// The node's program is sent with every boot, and locked in every node's memory.
const (
	// bytes, stripped; includes 60,000 for the watch of the root and the login files that are kept in memory
	maxAgent = 9_560_000
	// bytes in the initramfs; with it K of Debian 12 for a known NIC stays below its limit of 12 MB
	maxAgentSent = 3_300_000
)

// heavy are packages that are large, or that keep the linker from removing unused methods.
var heavy = []string{"html/template", "text/template", "encoding/gob", "encoding/xml", "database/sql", "expvar",
	"net/http/pprof", "net/rpc", "go/ast", "github.com/spf13/cobra", "go.yaml.in/yaml/v3", "modernc.org/sqlite"}

// TestAgentDependencies compares the packages of the node's program with testdata/pando-init.deps, so that a review
// sees each new one.
func TestAgentDependencies(t *testing.T) {
	out := goCommand(t, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{else}}std {{.ImportPath}}{{end}}",
		"./cmd/pando-init")
	var deps []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		std, isStd := strings.CutPrefix(line, "std ")
		if slices.Contains(heavy, line) || isStd && slices.Contains(heavy, std) {
			t.Errorf("pando-init is linked from %s", line)
		}
		if !isStd { // the standard library's own packages change with each release of Go
			deps = append(deps, line)
		}
	}
	slices.Sort(deps)
	golden(t, "pando-init.deps", strings.Join(deps, "\n")+"\n")
}

// TestAgentSize bounds the size of the node's program, built and compressed as in a release.
func TestAgentSize(t *testing.T) {
	if _, err := exec.LookPath("zstd"); err != nil {
		t.Skipf("the bound is for what zstd packs: %v", err)
	}
	binary := filepath.Join(t.TempDir(), "pando-init")
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", binary}, agentFlags(t)...)
	goCommand(t, append(args, "./cmd/pando-init")...)
	b, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := initramfs.AgentCPIO(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("pando-init: %d bytes, %d as sent", len(b), len(sent))
	if len(b) > maxAgent {
		t.Errorf("pando-init has %d bytes, the ceiling is %d", len(b), maxAgent)
	}
	if len(sent) > maxAgentSent {
		t.Errorf("pando-init has %d bytes as sent, the ceiling is %d", len(sent), maxAgentSent)
	}
}

// agentFlags returns the Makefile's build flags of the node's program.
func agentFlags(t *testing.T) []string {
	t.Helper()
	c := exec.Command("make", "-s", "--no-print-directory", "-C", root, "agent-flags")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	return strings.Fields(string(out))
}

// goCommand runs the go command at the module's top and returns its output.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	c := exec.Command("go", args...)
	c.Dir = root
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%swant:\n%s(rewrite it with -update if the change is meant)", path, got, want)
	}
}
