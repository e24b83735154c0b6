package courier

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"pando/internal/testkit/nodekit"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/rundir"
)

// post is a server that receives one copy of a state and sends it to a node.
type post struct {
	t   *testing.T
	dir string // run directory of the node

	mu     sync.Mutex
	parcel []byte
	broken int // requests that broke off

	answer func(w http.ResponseWriter, r *http.Request) bool // handles a request instead; false: handle it as usual
}

func newPost(t *testing.T) *post {
	t.Helper()
	p := &post{t: t, dir: t.TempDir()}
	url, key := nodekit.TLSServer(t, p.serve)
	p.session(
		rundir.Session{Boot: "b1", Session: "secret", Control: []string{"https://127.0.0.1:1", url}, ServerKey: key},
	)
	return p
}

func (p *post) session(s rundir.Session) {
	p.t.Helper()
	if err := rundir.WriteJSON(p.dir, rundir.SessionName, 0o600, s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *post) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if p.answer != nil && p.answer(w, r) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/v1/node/state/send":
		b, err := io.ReadAll(r.Body)
		if err != nil || r.URL.RawQuery != "boot=b1&order=A1" {
			p.broken++
			return
		}
		p.parcel = b
		w.WriteHeader(http.StatusNoContent)
	case "/v1/node/state/fetch":
		var req api.StateFetch
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req != (api.StateFetch{Boot: "b1", Order: "A1"}) {
			p.t.Errorf("asked for %+v, %v", req, err)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(p.parcel)))
		_, _ = w.Write(p.parcel)
	}
}

// digest returns the digest of the sent state.
func (p *post) digest() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := sha256.Sum256(p.parcel)
	return hex.EncodeToString(sum[:])
}

// runs checks a command's exit status, and its message if the status is not 0.
func (p *post) runs(status int, says string, args ...string) {
	p.t.Helper()
	var out bytes.Buffer
	if got := Run(p.dir, args, &out); got != status || !strings.Contains(out.String(), says) ||
		status == 0 && out.Len() > 0 ||
		strings.Count(out.String(), "\n") > 1 {
		p.t.Errorf("%v: status %d, want %d; it says %q, want %q", args, got, status, out.String(), says)
	}
}

func refuse(code api.Code, message, hint string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(code.Status())
		_ = json.NewEncoder(w).Encode(api.ErrorBody{Error: api.NewError(code, message, hint)})
		return true
	}
}

// keptTree returns a directory with a state and with files of Pando.
func keptTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := `cd "$1" && mkdir -p +pando/since lost+found .new+half 'srv+a b' && echo own > +pando/done && echo x > .new+half/x && cd 'srv+a b' &&
		echo text > plain && chmod 4751 plain && ln plain hard && ln -s nowhere soft && truncate -s 64M hole && mkdir .hidden`
	if out, err := exec.Command("sh", "-c", script, "sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// The other node gets what this one sent, with links and holes. Pando's own files are not sent.
func TestStateIsMoved(t *testing.T) {
	p, from, to := newPost(t), keptTree(t), t.TempDir()
	xattr := unix.Setxattr(filepath.Join(from, "srv+a b/plain"), "user.pando", []byte("kept"), 0)
	p.runs(0, "", "state-send", "A1", from)
	if len(p.parcel) > 1e6 {
		t.Errorf("%d bytes for a hole", len(p.parcel))
	}
	p.runs(0, "", "state-fetch", "A1", p.digest(), to)
	list := func(dir string) string {
		out, err := exec.Command("sh", "-c",
			`cd "$1" && find . -path './srv*' -printf '%p %y %m %u %n %T@ %l\n' | sort && [ 'srv+a b/plain' -ef 'srv+a b/hard' ] && cat 'srv+a b/plain'`, "sh", dir).
			CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return string(out)
	}
	if got, want := list(to), list(from); got != want || strings.Count(got, "\n") != 7 {
		t.Errorf("moved:\n%s\nand not\n%s", got, want)
	}
	if left, _ := os.ReadDir(to); len(left) != 1 {
		t.Errorf("moved: %v", left)
	}
	got := make([]byte, 10)
	if n, err := unix.Getxattr(filepath.Join(to, "srv+a b/plain"), "user.pando", got); xattr == nil &&
		(err != nil || string(got[:n]) != "kept") {
		t.Errorf("its attribute: %q, %v", got, err)
	}
}

// An incomplete state never looks complete, neither when tar fails nor when it is killed.
func TestSendBreaksOff(t *testing.T) {
	p, from := newPost(t), keptTree(t)
	p.runs(courierNever, "tar: ", "state-send", "A1", filepath.Join(from, "none"))
	bin := t.TempDir()
	for _, c := range []struct {
		script string
		status int
	}{
		{"echo half; exit 2", courierNever},
		{"echo half; exit 1", courierNever},
		{"echo half; kill -9 $$", courierNever},
		{"head -c 10000000 /dev/zero; exit 2", courierNever},
		{"echo whole", 0},
	} {
		if err := os.WriteFile(filepath.Join(bin, "tar"), []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
		says := "tar: "
		if c.status == 0 {
			says = ""
		}
		p.runs(c.status, says, "state-send", "A1", from)
		if (p.parcel != nil) != (c.status == 0) {
			t.Errorf("%s: the server has %.40q", c.script, p.parcel)
		}
	}
}

// A transfer that the server refuses for good is not repeated, and no data is sent. It is repeated if the server is
// busy, fails, or is down.
func TestServerRefusesState(t *testing.T) {
	p, from := newPost(t), keptTree(t)
	send := []string{"state-send", "A1", from}
	fetch := []string{"state-fetch", "A1", p.digest(), t.TempDir()}
	for code, status := range map[api.Code]int{api.Conflict: courierNever, api.NotFound: courierNever,
		api.Forbidden: courierNever, api.TooMany: courierAgain, api.Internal: courierAgain,
		api.Unauthorized: courierAgain} {
		p.answer = refuse(code, "no room", "make\nroom")
		p.runs(status, "no room (make room)\n", send...)
		p.runs(status, "no room (make room)\n", fetch...)
	}
	p.answer = func(w http.ResponseWriter, r *http.Request) bool { // breaks off in the middle
		if _, err := io.CopyN(io.Discard, r.Body, 1000); err != nil {
			t.Error(err)
		}
		return refuse(api.Conflict, "no room", "")(w, r)
	}
	p.runs(courierNever, "no room\n", send...)
	p.answer = func(w http.ResponseWriter, r *http.Request) bool { panic(http.ErrAbortHandler) }
	p.runs(courierAgain, "EOF", send...)
	p.runs(courierAgain, "EOF", fetch...)
	if p.parcel != nil || p.broken > 0 {
		t.Errorf("the server has %d bytes, %d broken requests", len(p.parcel), p.broken)
	}
	p.session(rundir.Session{Boot: "b1"})
	p.runs(courierAlone, "no server", send...)
	p.runs(courierAlone, "no server", fetch...)
}

// A broken transfer is repeated. Wrong data, data that is no archive, and a full disk are final errors.
func TestFetchedIsWrong(t *testing.T) {
	p, from := newPost(t), keptTree(t)
	if err := os.WriteFile(filepath.Join(from, "srv+a b/large"), bytes.Repeat([]byte("0123456789"), 300_000),
		0o600); err != nil {
		t.Fatal(err)
	}
	p.runs(0, "", "state-send", "A1", from)
	digest := p.digest()
	p.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", fmt.Sprint(len(p.parcel)))
		_, _ = w.Write(p.parcel[:len(p.parcel)/2])
		return true
	}
	p.runs(courierAgain, "EOF", "state-fetch", "A1", digest, t.TempDir())
	p.answer = nil
	p.parcel[len(p.parcel)/2] ^= 1
	p.runs(
		courierNever,
		"not what the other node sent (order the copy again)",
		"state-fetch",
		"A1",
		digest,
		t.TempDir(),
	)
	p.parcel = bytes.Repeat([]byte("no archive"), 1000)
	p.runs(courierNever, "tar: ", "state-fetch", "A1", p.digest(), t.TempDir())
	p.parcel = nil
	p.runs(courierNever, "tar: ", "state-fetch", "A1", digest, t.TempDir())
}

// A full disk is reported with tar's message.
func TestFetchedHasNoRoom(t *testing.T) {
	p, from, to := newPost(t), keptTree(t), t.TempDir()
	if err := unix.Mount("pando-test", to, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small file system: %v", err)
	}
	t.Cleanup(func() { logUnmount(t, to) })
	if err := os.WriteFile(filepath.Join(from, "srv+a b/large"), bytes.Repeat([]byte("0123456789"), 30_000),
		0o600); err != nil {
		t.Fatal(err)
	}
	p.runs(0, "", "state-send", "A1", from)
	p.runs(courierNever, "No space left on device", "state-fetch", "A1", p.digest(), to)
}

func logUnmount(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		t.Error(err)
	}
}
