package nbd

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run runs a foreign program and returns its output. It skips the test if the program is missing.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed (apt install libnbd-bin qemu-utils)", name)
	}
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestForeignNbdinfo(t *testing.T) {
	path := listen(t, oneExport(1<<20))
	var got struct {
		Exports []struct {
			Name     string `json:"export-name"`
			Size     int64  `json:"export-size"`
			ReadOnly bool   `json:"is_read_only"`
			Multi    bool   `json:"can_multi_conn"`
			Best     int    `json:"block_size_preferred"`
		}
	}
	out := run(t, "nbdinfo", "--json", "--list", "nbd+unix://?socket="+path)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(got.Exports) != 1 {
		t.Fatalf("nbdinfo lists %d exports, want 1\n%s", len(got.Exports), out)
	}
	if e := got.Exports[0]; e.Name != "root" || e.Size != 1<<20 || !e.ReadOnly || !e.Multi || e.Best != 4096 {
		t.Errorf("nbdinfo reads %+v", e)
	}
}

func TestForeignNbdcopy(t *testing.T) {
	s := oneExport(8 << 20)
	path := listen(t, s)
	to := filepath.Join(t.TempDir(), "copy")
	run(t, "nbdcopy", "--connections=4", "--requests=16", "nbd+unix:///root?socket="+path, to)
	got, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, s.Exports[0].Device.(*memory).data) {
		t.Error("the copy differs")
	}
}

func TestForeignQemu(t *testing.T) {
	s := oneExport(8 << 20)
	dev := s.Exports[0].Device.(*memory)
	copy(dev.data[65536:], bytes.Repeat([]byte{0xa5}, 4096))
	url := "nbd+unix:///root?socket=" + listen(t, s)
	out := run(
		t,
		"qemu-io",
		"-r",
		"-f",
		"raw",
		"-c",
		"read -P 0xa5 65536 4096",
		"-c",
		"read 1 3",
		"-c",
		"read 0 8M",
		url,
	)
	if strings.Contains(out, "failed") || strings.Count(out, "ops;") != 3 {
		t.Errorf("qemu-io reads badly:\n%s", out)
	}
	// A client that wants to write must get exit status 1 and a message about read-only.
	cmd := exec.CommandContext(t.Context(), "qemu-io", "-f", "raw", "-c", "write 0 4096", url)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("qemu-io may write:\n%s", out)
	}
}
