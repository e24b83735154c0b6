package medium

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/control"
	"pando/internal/media"
)

// The server's data can be written only to the slots.
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
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(sys, "class/block"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := func(name, to string) {
		if err := os.Symlink(filepath.Join(sys, "devices/ata1", to),
			filepath.Join(sys, "class/block", name)); err != nil {
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

// A stick that never answers does not block the loop, and no second attempt begins. When it answers after all, the
// loop gets the result.
func TestMediumIsRenewedBesideTheLoop(t *testing.T) {
	wakes := make(chan struct{}, 1)
	m := New(nil, nil, func() { wakes <- struct{}{} }, t.Output())
	began, answer := make(chan struct{}, 2), make(chan mediumResult)
	stick := func(context.Context) mediumResult {
		began <- struct{}{}
		return <-answer
	}
	for range 3 { // iterations of the loop
		if _, ok := m.look(t.Context(), -mediumGrace, stick); ok {
			t.Error("it is in step before the stick has answered")
		}
	}
	<-began
	answer <- mediumResult{disk: "/dev/sdx", wrote: 1}
	<-wakes
	if r, ok := m.look(t.Context(), -mediumGrace, stick); !ok || r.disk != "/dev/sdx" || r.wrote != 1 {
		t.Errorf("renewed: %+v, %v", r, ok)
	}
	if len(began) > 0 {
		t.Error("it is renewed twice")
	}
}

// A busy server is tried again soon, and not by all nodes in the same minute.
func TestNextTryOfAMedium(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 20 {
		d := nextTry(fmt.Errorf("medium: %w", &control.Refused{Status: http.StatusServiceUnavailable}))
		if d < busyLeast || d > busyMost {
			t.Errorf("busy: again after %s", d)
		}
		seen[d] = true
	}
	if len(seen) < 2 {
		t.Error("all ask a busy server again at the same time")
	}
	for _, err := range []error{errors.New("input/output " +
		"error"), &control.Refused{Status: http.StatusInternalServerError}} {
		if d := nextTry(err); d != mediumAgain {
			t.Errorf("%v: again after %s", err, d)
		}
	}
}
