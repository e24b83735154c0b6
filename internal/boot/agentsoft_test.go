package boot

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/fleet"
)

// The daemons of one root are told from those of another by where they live, and from all else by their names.
func TestDaemonsOfARoot(t *testing.T) {
	proc, old, next := t.TempDir(), t.TempDir(), t.TempDir()
	for pid, x := range map[string][2]string{
		"10": {SupervisorName + "\x00/pando-init\x00", old}, "11": {BlockName + "\x00/pando-init\x00", old},
		"20": {SupervisorName + "\x00/pando-init\x00", next}, "21": {BlockName + "\x00/pando-init\x00", next},
		"30": {"pando-agent\x00", old}, "31": {VolumeName + "\x00", old}, "self": {BlockName + "\x00", old},
	} {
		dir := filepath.Join(proc, pid)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(x[1], filepath.Join(dir, "root")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cmdline"), []byte(x[0]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var dir unix.Stat_t
	if err := unix.Stat(old, &dir); err != nil {
		t.Fatal(err)
	}
	if got := daemonsIn(proc, dir, SupervisorName, BlockName); !slices.Equal(got, []int{10, 11}) {
		t.Errorf("%v", got)
	}
	if got := daemonsIn(proc, dir, SupervisorName); !slices.Equal(got, []int{10}) {
		t.Errorf("supervisors: %v", got)
	}
}

// A node stages nothing that its server did not sign for the boot that runs, and nothing that it could not go to.
func TestStageRefuses(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(boot string) api.StageResponse {
		data, err := json.Marshal(
			fleet.Assignment{
				Format:  1,
				Boot:    fleet.BootID(boot),
				Node:    "pc001",
				Version: fleet.Digest("sha256:" + strings.Repeat("1", 64)),
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		return api.StageResponse{
			Assignment: data,
			Signature:  ed25519.Sign(private, append([]byte(api.AssignmentContext), data...)),
		}
	}
	spoiled := sign("b1")
	spoiled.Assignment = bytes.Replace(spoiled.Assignment, []byte("pc001"), []byte("pc002"), 1)
	for name, c := range map[string]struct {
		answer api.StageResponse
		change func(*agent)
		want   string
	}{
		"older systemd":          {sign("b1"), func(a *agent) { a.root = t.TempDir() }, "older than 254"},
		"no keys":                {sign("b1"), func(a *agent) { a.session.TrustKeys = nil }, "no keys"},
		"another boot's":         {sign("b2"), nil, "it is for boot b2"},
		"changed":                {spoiled, nil, "wrong signature"},
		"good, without a lease ": {sign("b1"), nil, leaseName},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agent{
				dir:  t.TempDir(),
				root: t.TempDir(),
				log:  io.Discard,
				session: session{Boot: "b1", Node: "pc001", Session: "s", TrustKeys: []string{"k"},
					ServerKey: base64.StdEncoding.EncodeToString(public)},
			}
			if err := os.MkdirAll(filepath.Dir(filepath.Join(a.root, softTarget)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(a.root, softTarget), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			a.control = &control{
				urls: []string{"https://server"},
				client: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path != "/v1/node/stage" || r.Header.Get("Authorization") != "Bearer s" {
						return nil, fmt.Errorf("asks for %s", r.URL)
					}
					b, err := json.Marshal(c.answer)
					return &http.Response{
						StatusCode: http.StatusOK,
						Body:       io.NopCloser(bytes.NewReader(b)),
						Request:    r,
					}, err
				})},
			}
			if c.change != nil {
				c.change(a)
			}
			if _, err := a.stage(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// What a boot had in /run and its next one has not is taken away.
func TestStaleRunFiles(t *testing.T) {
	if got := lacking([]string{"/run/a", "/run/b", "/run/c"}, []string{"/run/b"}); !slices.Equal(
		got,
		[]string{"/run/a", "/run/c"},
	) {
		t.Errorf("%v", got)
	}
}

func TestReplaceLink(t *testing.T) {
	name := filepath.Join(t.TempDir(), BlockSocket)
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"/run/pando/root-2/block.sock", "/run/pando/root-0/block.sock"} {
		if err := replaceLink(to, name); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(name); err != nil || got != to {
			t.Errorf("%s, %v", got, err)
		}
	}
}

func TestMappedFiles(t *testing.T) {
	proc := t.TempDir()
	for pid, text := range map[string]string{"1": "7f0-7f1 r-xp 0000 00:1a 12    " +
		"/usr/lib/systemd/systemd\n7f2-7f3 rw-p 0 00:00 0 [heap]\n7f4-7f5 rw-p 0 00:00 0\n",
		"20": "7f0-7f1 r-xp 0 00:1a 13 /usr/lib/libc.so.6\n7f0-7f1 r--p 0 00:1a 12 /usr/lib/systemd/systemd\n7 r " +
			"0 0 1 /run/pando/pando-init\n7 r 0 0 1 /dev/shm/x (deleted)\n", "self": "7 r 0 0 1 /usr/x\n"} {
		if err := os.Mkdir(filepath.Join(proc, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "maps"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := mappedFiles(proc); !slices.Equal(got, []string{"/usr/lib/systemd/systemd", "/usr/lib/libc.so.6"}) {
		t.Errorf("%q", got)
	}
}

// What is read ahead of the next root has a bound, and a pipe or a link in it holds nobody up.
func TestWarmIsBounded(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"usr/lib/systemd/a": 10, "usr/lib/systemd/system/b": 20, "usr/lib/systemd/boot/c": 1000} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755), os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	systemd := filepath.Join(dir, "usr/lib/systemd")
	if err := errors.Join(os.Symlink("..", filepath.Join(systemd, "up")), unix.Mkfifo(filepath.Join(systemd, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root, err := openRootDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.close()
	for _, c := range []struct{ left, want int64 }{{100, 70}, {25, 0}} {
		left := c.left
		for _, name := range append([]string{"/usr/bin/nothing", "/usr/lib/systemd/pipe"}, warmTrees...) {
			root.warm(name, &left)
		}
		if left != c.want {
			t.Errorf("of %d bytes %d are left, want %d", c.left, left, c.want)
		}
	}
}
