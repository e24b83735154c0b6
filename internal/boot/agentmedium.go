package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/media"
	"pando/internal/trace"
)

// When the boot medium of a running node is looked after: not while it boots, once in a boot, and again when that
// failed. A server that is busy with the media of others is asked by chance, because they all began a minute after
// they had booted.
const (
	mediumGrace = time.Minute
	mediumAgain = 10 * time.Minute
	busyLeast   = time.Minute
	busyMost    = 5 * time.Minute
)

// mediumCare is how the loop stands with the boot medium. A stick may be slow or never answer again, so what is
// done with it is done beside the loop, which only hears how it went.
type mediumCare struct {
	done chan mediumTry // of the one under way; nil: there is none
	at   time.Duration  // CLOCK_MONOTONIC before which there is none
}

// mediumTry is how it went to renew the boot medium.
type mediumTry struct {
	disk  string // "": the node has no medium
	wrote int64  // bytes; 0: it was in step
	err   error
}

// renewMedium brings kernel and initramfs on the node's boot medium in step with what the node runs.
func (a *agent) renewMedium(ctx context.Context) { a.careForMedium(ctx, a.tryMedium) }

// careForMedium begins a try when it is time, one at a time, and takes in how it went.
func (a *agent) careForMedium(ctx context.Context, try func(context.Context) mediumTry) {
	c := &a.medium
	if c.done != nil {
		select {
		case r := <-c.done:
			c.done = nil
			a.mediumTried(r)
		default:
		}
		return
	}
	if !a.booted.Load() || a.progress.Medium || monotonic() < max(a.progress.BootedAt+mediumGrace, c.at) {
		return
	}
	done := make(chan mediumTry, 1)
	c.done = done
	go func() {
		done <- try(ctx)
		a.kick()
	}()
}

// tryMedium runs beside the loop, and touches nothing that is the loop's.
func (a *agent) tryMedium(ctx context.Context) (r mediumTry) {
	if r.disk = mediumDisk(sysfs); r.disk == "" {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, mediumAgain)
	defer cancel()
	r.wrote, r.err = a.writeMedium(ctx, r.disk)
	return r
}

// mediumTried notes how a try went.
func (a *agent) mediumTried(r mediumTry) {
	if r.err != nil {
		a.logf("boot medium %s: %v", r.disk, r.err)
		a.medium.at = monotonic() + nextTry(r.err)
		return
	}
	if r.wrote > 0 {
		a.event(trace.Event{Stage: trace.Booted, Kind: trace.Info,
			Message: fmt.Sprintf("boot medium %s has the kernel and initramfs of this version now", r.disk)})
	}
	a.progress.Medium = true
	if r.disk != "" {
		a.keepProgress()
	}
}

// nextTry is how long after one that failed the next one begins.
func nextTry(err error) time.Duration {
	var r *refused
	if errors.As(err, &r) && r.status == http.StatusServiceUnavailable {
		return busyLeast + rand.N(busyMost-busyLeast)
	}
	return mediumAgain
}

// mediumDisk is the disk with slots for K, "" for none.
func mediumDisk(sys string) string {
	entries, _ := os.ReadDir(filepath.Join(sys, "class/block"))
	for _, e := range entries {
		data, _ := os.ReadFile(filepath.Join(sys, "class/block", e.Name(), "uevent"))
		if !strings.Contains(string(data), "PARTNAME="+media.SlotName+"\n") {
			continue
		}
		if disk := diskOf(sys, e.Name()); disk != "" {
			return "/dev/" + disk
		}
	}
	return ""
}

// writeMedium asks the server for what is to be written, and writes it.
func (a *agent) writeMedium(ctx context.Context, path string) (int64, error) {
	disk, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer disk.Close()
	size, err := disk.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	req := api.NodeMedium{Boot: a.self().Boot}
	for i := range media.Slots {
		b := make([]byte, media.Sector)
		if _, err := disk.ReadAt(b, media.SlotAt(i)); err != nil {
			return 0, err
		}
		h := media.ParseHeader(b)
		req.Slots = append(req.Slots, api.MediumSlot{Sequence: h.Sequence, Digest: h.Digest})
	}
	stream, err := a.control.stream(ctx, "/v1/node/medium", "Bearer "+a.self().Session, req)
	if err != nil || stream == nil {
		return 0, err
	}
	defer stream.Close()
	return media.Carry(slots{disk}, size, stream)
}

// slots is a disk of which only the slots may be written.
type slots struct{ *os.File }

// WriteAt refuses what is beside the slots.
func (s slots) WriteAt(p []byte, at int64) (int, error) {
	if at < media.SlotAt(0) || at+int64(len(p)) > media.SlotAt(media.Slots) {
		return 0, fmt.Errorf("a write of %d bytes at %d is not for a slot", len(p), at)
	}
	return s.File.WriteAt(p, at)
}
