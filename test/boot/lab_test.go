package boot

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

// The lab's machine boots from a root over the kernel's NFS 4.1 client, and reaches its default target.
func TestRealLabBootsByNFS(t *testing.T) {
	needFull(t)
	for _, program := range []string{"ganesha.nfsd", "nbd-client"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	slots <- struct{}{}
	defer func() { <-slots }()
	dir := filepath.Join(runDir(), "lab")
	data := filepath.Join(dir, "data")
	if err := errors.Join(os.MkdirAll(dir, 0o755), copyData(base, data)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	c := exec.CommandContext(
		ctx,
		filepath.Join(binDir, "pando-lab"),
		"alone",
		"--dir",
		dir,
		"--data",
		data,
		"--image",
		trixie,
		"--runs",
		"1",
		"--ways",
		"nfs",
		"--wall",
	)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("pando-lab alone: %v\n%s", err, out)
	}
	console, err := os.ReadFile(filepath.Join(dir, "alone", "alone.console"))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`LAB root \S+:/root /low nfs4 ro,\S*vers=4\.1,\S*nconnect=4,`).Match(console) {
		t.Errorf("the root is not NFS 4.1:\n%s", console)
	}
	var result struct {
		Seconds map[string][]float64 `json:"seconds"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "alone-wall.json"))
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if s := result.Seconds["nfs"]; err != nil || len(s) != 1 || s[0] <= 0 {
		t.Errorf("%s, %v", text, err)
	}
	if !t.Failed() {
		os.RemoveAll(dir)
	}
}
