package medium

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"pando/internal/testkit/nodekit"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/media"
	"pando/internal/problem"
	"pando/internal/rundir"
)

// madeMedium is the whole content of a medium in these tests: one sector at the start of the disk.
var madeMedium = bytes.Repeat([]byte{7}, media.Sector)

// Answers of a server to a request for a medium.
var (
	sendsMedium http.HandlerFunc = func(w http.ResponseWriter,
		_ *http.Request) {
		_ = media.Send(w, []media.Write{{Data: madeMedium}})
	}
	hasNothing http.HandlerFunc = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	goesAway   http.HandlerFunc = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	breaksOff  http.HandlerFunc = func(w http.ResponseWriter, _ *http.Request) {
		var whole bytes.Buffer
		_ = media.Send(&whole, []media.Write{{Data: madeMedium}})
		_, _ = w.Write(whole.Bytes()[:16+media.Sector]) // without the end mark
	}
	hasNoGRUB http.HandlerFunc = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_ = json.NewEncoder(w).
			Encode(api.ErrorBody{Error: api.NewError(api.Internal, "boot loader of a medium: no boot.img",
				"apt install grub-pc-bin")})
	}
)

// mediumCase is an attempt to make a disk a medium or a cache.
type mediumCase struct {
	name   string
	device string
	cache  bool             // a cache only
	sector string           // the disk's sector size in bytes
	broken bool             // writes to the disk fail
	answer http.HandlerFunc // nil: no request is expected
	err    string           // "": it succeeds
	hint   string
}

// try runs the attempt with a server that answers like this, and returns the machine's devices afterwards.
func (c mediumCase) try(t *testing.T, dryRun bool) (dev string, asked int, err error) {
	t.Helper()
	url, key := nodekit.TLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		var req api.NodeMedium
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || r.URL.Path != "/v1/node/medium" ||
			req.Size != 512_000_000 {
			t.Errorf("%s is asked for %+v, %v", r.URL.Path, req, err)
		}
		c.answer(w, r)
	})
	server, err := control.New([]string{url}, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := New(server, func() rundir.Session { return rundir.Session{} }, func() {}, t.Output())
	sys, dev, proc := c.machine(t)
	err = m.Prepare(sys, dev, proc, api.NodeCommand{Device: c.device, DryRun: dryRun, Bootable: !c.cache})
	return dev, asked, err
}

// longAgo is the modification time of the disks of these tests.
var longAgo = time.Unix(1e9, 0)

// machine returns a machine with the disks of nodekit.Disks, none of them in use.
func (c mediumCase) machine(t *testing.T) (sys, dev, proc string) {
	t.Helper()
	sys, dev, proc = nodekit.Disks(t)
	disk := filepath.Join(dev, "sda")
	err := errors.Join(
		os.WriteFile(filepath.Join(proc, "self/mountinfo"), nil, 0o600),
		os.WriteFile(filepath.Join(proc, "swaps"), nil, 0o600),
		os.MkdirAll(filepath.Join(sys, "devices/sda/queue"), 0o755),
		os.WriteFile(filepath.Join(sys, "devices/sda/queue/logical_block_size"), []byte(c.sector), 0o600),
	)
	if c.broken {
		err = errors.Join(err, os.Remove(disk), os.Symlink("/dev/full", disk))
	}
	for _, name := range []string{"sda", "sda1", "sdb"} {
		if path := filepath.Join(dev, name); path != disk || !c.broken {
			err = errors.Join(err, os.Chtimes(path, longAgo, longAgo))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return sys, dev, proc
}

// wantUnwritten checks that no disk was written to.
func wantUnwritten(t *testing.T, dev, device string) {
	t.Helper()
	info, err := os.Stat(filepath.Join(dev, filepath.Base(device)))
	if err != nil {
		t.Fatal(err)
	}
	if !info.ModTime().Equal(longAgo) {
		t.Errorf("%s was written to, at %v", device, info.ModTime())
	}
}

// Reasons against a disk are found before anything is written, also by a dry run, and are not reported as a loss.
func TestMediumIsRefused(t *testing.T) {
	for _, c := range []mediumCase{
		{name: "partition", device: "/dev/sda1", err: "/dev/sda1 is a partition", hint: "name /dev/sda; nothing " +
			"was written"},
		{name: "large sectors", device: "/dev/sda", sector: "4096", err: "sectors of 4096 bytes",
			hint: "name another, or make it a cache without --bootable; nothing was written"},
		{name: "small disk", device: "/dev/sdb", err: "/dev/sdb has 163 MB, a boot medium needs " +
			"272", hint: "name another; nothing was written"},
		{name: "server without GRUB", device: "/dev/sda", answer: hasNoGRUB, err: "ask the server for a boot " +
			"medium: boot loader of a medium: no boot.img",
			hint: "nothing was written; the server says: apt install grub-pc-bin"},
		{name: "server without a medium", device: "/dev/sda", answer: hasNothing, err: "nothing to write to " +
			"/dev/sda", hint: "nothing was written"},
		{name: "no server", device: "/dev/sda", answer: goesAway, err: "ask the server for a boot medium: ",
			hint: "nothing was written"},
	} {
		for name, dryRun := range map[string]bool{c.name: false, c.name + ", dry run": true} {
			t.Run(name, func(t *testing.T) {
				dev, asked, err := c.try(t, dryRun)
				if err == nil || !strings.Contains(err.Error(), c.err) || problem.HintOf(err) != c.hint {
					t.Errorf("got %v, hint %q; want %q, hint %q", err, problem.HintOf(err), c.err, c.hint)
				}
				if (asked > 0) != (c.answer != nil) {
					t.Errorf("the server was asked %d times", asked)
				}
				wantUnwritten(t, dev, c.device)
			})
		}
	}
}

// A dry run contacts the server, and leaves the disk as it is.
func TestMediumIsWritten(t *testing.T) {
	c := mediumCase{device: "/dev/sda", answer: sendsMedium}
	dev, asked, err := c.try(t, true)
	if err != nil || asked != 1 {
		t.Errorf("dry run: %v, and the server was asked %d times", err, asked)
	}
	wantUnwritten(t, dev, c.device)
	if dev, asked, err = c.try(t, false); err != nil || asked != 1 {
		t.Errorf("%v, and the server was asked %d times", err, asked)
	}
	disk, err := os.Open(filepath.Join(dev, "sda"))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	got := make([]byte, media.Sector)
	if _, err := disk.ReadAt(got, 0); err != nil || !bytes.Equal(got, madeMedium) {
		t.Errorf("the disk begins with %v, %v", got[:8], err)
	}
}

// An error that says that content is lost is true: the disk was written to. A dry run cannot find it.
func TestMediumFails(t *testing.T) {
	for _, c := range []mediumCase{
		{name: "medium on a broken disk", device: "/dev/sda", broken: true, answer: sendsMedium, err: "no space left"},
		{name: "cache on a broken disk", device: "/dev/sda", broken: true, cache: true, err: "no space left"},
		{name: "server that breaks off", device: "/dev/sda", answer: breaksOff, err: "unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := c.try(t, true); err != nil {
				t.Errorf("dry run: %v", err)
			}
			_, _, err := c.try(t, false)
			if err == nil || !strings.Contains(err.Error(), c.err) ||
				problem.HintOf(err) != "is the disk broken? what was on it is lost" {
				t.Errorf("got %v, hint %q; want %q, and that all is lost", err, problem.HintOf(err), c.err)
			}
		})
	}
}
