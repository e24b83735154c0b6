package boot

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/media"
)

// A node that booted without a server gets an id and a session when there is one, and speaks under them.
func TestAgentJoins(t *testing.T) {
	resp, cfg := signedAssignment(t, nil)
	var asked []string
	url, _ := tlsServerOf(
		t,
		ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)),
		func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			switch r.URL.Path {
			case "/v1/node/begin":
				var req api.BeginRequest
				if err := json.NewDecoder(r.Body).Decode(&req); err != nil || !req.Runs ||
					req.Medium != "sha256:running" ||
					req.Uptime <= 0 {
					t.Errorf("begin with %+v, %v", req, err)
				}
				_ = json.NewEncoder(w).Encode(api.BeginResponse{Boot: cfg.Boot, Token: "t"})
			case "/v1/node/hello":
				_ = json.NewEncoder(w).Encode(resp)
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		},
	)
	dir := t.TempDir()
	l := lease{MAC: fleet.MAC{2, 0, 0, 0, 0, 1}, Address: netip.MustParsePrefix("10.0.0.9/24")}
	s := session{Node: "pc001", Version: "sha256:running", Control: []string{url}, ServerKey: cfg.ServerKey}
	if err := errors.Join(writeJSON(dir, leaseName, 0o600, l), writeJSON(dir, sessionName, 0o600, s)); err != nil {
		t.Fatal(err)
	}
	a, err := newAgent(dir, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if !a.join(t.Context()) {
		t.Fatal("it did not join")
	}
	if got := a.self(); got.Boot != cfg.Boot || got.Session != resp.Session || got.Node != "pc001" {
		t.Errorf("it speaks as %+v", got)
	}
	again, err := newAgent(dir, t.Output()) // it was killed, and started anew
	if err != nil || !again.join(t.Context()) || again.self().Session != resp.Session || len(asked) != 2 {
		t.Errorf("after a restart it asked %v and speaks as %+v, %v", asked, again.self(), err)
	}
}

func TestAgentWaitsForAServer(t *testing.T) {
	_, cfg := signedAssignment(t, nil)
	dir := t.TempDir()
	s := session{Control: []string{"https://127.0.0.1:1"}, ServerKey: cfg.ServerKey}
	if err := errors.Join(writeJSON(dir, leaseName, 0o600, lease{}), writeJSON(dir, sessionName, 0o600, s)); err != nil {
		t.Fatal(err)
	}
	a, err := newAgent(dir, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a.join(ctx) {
		t.Error("it joined nobody")
	}
}

// What a server sends for a medium can be written to the slots, and nowhere else.
func TestOnlySlotsAreRenewed(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sector := bytes.Repeat([]byte{7}, media.Sector)
	for at, good := range map[int64]bool{0: false, media.SlotAt(0) - media.Sector: false, media.SlotAt(0): true,
		media.SlotAt(1) + media.SlotSize - media.Sector: true, media.SlotAt(1) + media.SlotSize: false} {
		var wire bytes.Buffer
		if err := media.Send(&wire, []media.Write{{At: at, Data: sector}}); err != nil {
			t.Fatal(err)
		}
		if _, err := media.Carry(slots{f}, media.MinSize, &wire); (err == nil) != good {
			t.Errorf("a write at %d: %v", at, err)
		}
		got := make([]byte, media.Sector)
		if _, err := f.ReadAt(got, at); !errors.Is(err, io.EOF) && bytes.Equal(got, sector) != good {
			t.Errorf("at %d it says %v", at, got[:8])
		}
	}
}

func TestMediumDisk(t *testing.T) {
	sys := t.TempDir()
	for path, text := range map[string]string{
		"devices/ata1/sda/uevent":         "DEVNAME=sda\n",
		"devices/ata1/sda/sda1/uevent":    "DEVNAME=sda1\nPARTNAME=pando-efi\n",
		"devices/ata1/sda/sda3/uevent":    "DEVNAME=sda3\nPARTNAME=" + media.SlotName + "\n",
		"devices/ata1/sda/sda3/partition": "3\n",
	} {
		file := filepath.Join(sys, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(sys, "class/block"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := func(name, to string) {
		if err := os.Symlink(filepath.Join(sys, "devices/ata1", to), filepath.Join(sys, "class/block", name)); err != nil {
			t.Fatal(err)
		}
	}
	link("sda", "sda")
	link("sda1", "sda/sda1")
	if got := mediumDisk(sys); got != "" {
		t.Errorf("no medium, and it is %s", got)
	}
	link("sda3", "sda/sda3")
	if got := mediumDisk(sys); !strings.HasSuffix(got, "/dev/sda") {
		t.Errorf("the medium is %s", got)
	}
}

// A stick that never answers holds up nothing else: the loop goes on, and begins no second try. When it answers
// after all, the loop hears of it.
func TestMediumIsRenewedBesideTheLoop(t *testing.T) {
	a := &agent{dir: t.TempDir(), log: t.Output(), kicks: make(chan struct{}, 1)}
	a.report = newReporter(a.post)
	a.booted.Store(true)
	a.progress.BootedAt = -mediumGrace
	began, answer := make(chan struct{}, 2), make(chan mediumTry)
	stick := func(context.Context) mediumTry {
		began <- struct{}{}
		return <-answer
	}
	for range 3 { // turns of the loop
		a.careForMedium(t.Context(), stick)
	}
	<-began
	if a.progress.Medium {
		t.Error("it is in step before the stick has answered")
	}
	answer <- mediumTry{disk: "/dev/sdx", wrote: 1}
	<-a.kicks
	a.careForMedium(t.Context(), stick)
	var kept progress
	if err := readJSON(a.dir, progressName, &kept); err != nil || !a.progress.Medium || !kept.Medium {
		t.Errorf("renewed, and it is %v, kept %v, %v", a.progress.Medium, kept.Medium, err)
	}
	if said := a.report.take(); len(said) != 1 || !strings.Contains(said[0].Message, "/dev/sdx") {
		t.Errorf("the timeline has %+v", said)
	}
	a.careForMedium(t.Context(), stick)
	if len(began) > 0 {
		t.Error("it is renewed twice")
	}
}

// A server that is busy is asked soon, and not by all in the same minute.
func TestNextTryOfAMedium(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 20 {
		d := nextTry(fmt.Errorf("medium: %w", &refused{status: http.StatusServiceUnavailable}))
		if d < busyLeast || d > busyMost {
			t.Errorf("busy: again after %s", d)
		}
		seen[d] = true
	}
	if len(seen) < 2 {
		t.Error("all ask a busy server again at the same time")
	}
	for _, err := range []error{errors.New("input/output error"), &refused{status: http.StatusInternalServerError}} {
		if d := nextTry(err); d != mediumAgain {
			t.Errorf("%v: again after %s", err, d)
		}
	}
}
