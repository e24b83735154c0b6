package units

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestRunFilesGolden compares all files in a node's /run with one golden file.
func TestRunFilesGolden(t *testing.T) {
	var b strings.Builder
	for _, f := range Files(2, 15*time.Minute) {
		if f.Target != "" {
			fmt.Fprintf(&b, "=== %s -> %s\n", f.Path, f.Target)
			continue
		}
		fmt.Fprintf(&b, "=== %s %04o\n%s", f.Path, f.Mode, f.Data)
	}
	const golden = "testdata/run-files.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("files differ from %s (-update rewrites it):\n%s", golden, b.String())
	}
}

// TestUnitsVerify lets systemd read the units.
func TestUnitsVerify(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed (package systemd)")
	}
	dir := t.TempDir()
	for _, f := range Files(2, 15*time.Minute) {
		if ext := filepath.Ext(f.Path); f.Target != "" || ext != ".service" && ext != ".timer" {
			continue
		}
		// The programs exist on a node, not here.
		text := strings.NewReplacer("/run/pando/pando-init", "/bin/true", "/usr/bin/ssh-keygen", "/bin/true").
			Replace(string(f.Data))
		path := filepath.Join(dir, filepath.Base(f.Path))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(tool, "verify", "--man=no", path).CombinedOutput()
		if err != nil || strings.Contains(string(out), filepath.Base(f.Path)+":") {
			t.Errorf("%s: %v\n%s", f.Path, err, out)
		}
	}
}
