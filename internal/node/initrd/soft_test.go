package initrd

import (
	"bytes"
	"context"
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
	"pando/internal/blockapi"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/rootdir"
	"pando/internal/rundir"
)

// stagingAgent is an agent that reports nothing.
type stagingAgent struct{ rundir.Session }

func (a *stagingAgent) Self() rundir.Session          { return a.Session }
func (*stagingAgent) Info(string, string)             {}
func (*stagingAgent) Flush(context.Context) error     { return nil }
func (*stagingAgent) Goodbye(context.Context, string) {}

// roundTrip is an http.RoundTripper that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A node stages only what its server signed for the running boot, and only what it could boot.
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
		change func(*NextBoot, *stagingAgent)
		want   string
	}{
		"older systemd": {sign("b1"), func(n *NextBoot, _ *stagingAgent) { n.root = t.TempDir() },
			"older than 254"},
		"no keys":                {sign("b1"), func(_ *NextBoot, a *stagingAgent) { a.TrustKeys = nil }, "no keys"},
		"another boot's":         {sign("b2"), nil, "it is for boot b2"},
		"changed":                {spoiled, nil, "wrong signature"},
		"good, without a lease ": {sign("b1"), nil, rundir.LeaseName},
	} {
		t.Run(name, func(t *testing.T) {
			a := &stagingAgent{rundir.Session{Boot: "b1", Node: "pc001", Session: "s", TrustKeys: []string{"k"},
				ServerKey: base64.StdEncoding.EncodeToString(public)}}
			n := NewNextBoot(t.TempDir(), "", nil, a, Parts{}, io.Discard)
			n.root = t.TempDir()
			if err := os.MkdirAll(filepath.Dir(filepath.Join(n.root, softTarget)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(n.root, softTarget), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			n.control = control.Over(
				[]string{"https://server"},
				roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path != "/v1/node/stage" || r.Header.Get("Authorization") != "Bearer s" {
						return nil, fmt.Errorf("asks for %s", r.URL)
					}
					b, err := json.Marshal(c.answer)
					return &http.Response{
						StatusCode: http.StatusOK,
						Body:       io.NopCloser(bytes.NewReader(b)),
						Request:    r,
					}, err
				}),
			)
			if c.change != nil {
				c.change(n, a)
			}
			if _, err := n.stage(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// Files in /run of a boot are removed if its next boot does not have them.
func TestStaleRunFiles(t *testing.T) {
	if got := lacking([]string{"/run/a", "/run/b", "/run/c"}, []string{"/run/b"}); !slices.Equal(
		got,
		[]string{"/run/a", "/run/c"},
	) {
		t.Errorf("%v", got)
	}
}

func TestReplaceLink(t *testing.T) {
	name := filepath.Join(t.TempDir(), blockapi.Socket)
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

// Reading ahead of the next root is bounded, and a pipe or link in it does not block.
func TestWarmIsBounded(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"usr/lib/systemd/a": 10, "usr/lib/systemd/system/b": 20,
		"usr/lib/systemd/boot/c": 1000} {
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755),
			os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	systemd := filepath.Join(dir, "usr/lib/systemd")
	if err := errors.Join(os.Symlink("..", filepath.Join(systemd, "up")),
		unix.Mkfifo(filepath.Join(systemd, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	root, err := rootdir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, c := range []struct{ left, want int64 }{{100, 70}, {25, 0}} {
		left := c.left
		for _, name := range append([]string{"/usr/bin/nothing", "/usr/lib/systemd/pipe"}, warmTrees...) {
			warmFile(root, name, &left)
		}
		if left != c.want {
			t.Errorf("of %d bytes %d are left, want %d", c.left, left, c.want)
		}
	}
}
