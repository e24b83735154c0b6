package medium

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
	"pando/internal/control"
	"pando/internal/disk"
	"pando/internal/hardware"
	"pando/internal/media"
	"pando/internal/rundir"
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

// Renewer updates the node's boot medium. A stick may be slow or hang, so the work is done in its own goroutine, and
// the agent's loop only gets the result.
type Renewer struct {
	control *control.Client
	self    func() rundir.Session
	wake    func() // has the agent look soon
	log     io.Writer

	done chan mediumResult // of the attempt under way; nil: there is none
	at   time.Duration     // CLOCK_MONOTONIC before which there is none
}

// New looks after the medium of the node that self is; wake has the agent look soon.
func New(control *control.Client, self func() rundir.Session, wake func(), log io.Writer) *Renewer {
	return &Renewer{control: control, self: self, wake: wake, log: log}
}

// mediumResult is how it went to renew the boot medium.
type mediumResult struct {
	disk  string // "": the node has no medium
	wrote int64  // bytes; 0: it was in step
	err   error
}

// Look updates kernel and initramfs on the node's boot medium to what the node runs, some time after its boot. It
// starts an attempt when one is due, one at a time, and returns true once one succeeded.
func (m *Renewer) Look(ctx context.Context, booted time.Duration) (disk string, wrote int64, ok bool) {
	r, ok := m.look(ctx, booted, m.try)
	return r.disk, r.wrote, ok
}

func (m *Renewer) look(
	ctx context.Context,
	booted time.Duration,
	try func(context.Context) mediumResult,
) (r mediumResult, ok bool) {
	if m.done != nil {
		select {
		case r = <-m.done:
			m.done = nil
			return r, m.ended(r)
		default:
			return r, false
		}
	}
	if rundir.Monotonic() < max(booted+mediumGrace, m.at) {
		return r, false
	}
	done := make(chan mediumResult, 1)
	m.done = done
	go func() {
		done <- try(ctx)
		m.wake()
	}()
	return r, false
}

// try runs beside the loop, and touches nothing that is the loop's.
func (m *Renewer) try(ctx context.Context) (r mediumResult) {
	if r.disk = mediumDisk(hardware.Sysfs); r.disk == "" {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, mediumAgain)
	defer cancel()
	r.wrote, r.err = m.write(ctx, r.disk)
	return r
}

// ended reports whether an attempt went well, and says when there is another one after one that did not.
func (m *Renewer) ended(r mediumResult) bool {
	if r.err != nil {
		fmt.Fprintf(m.log, "boot medium %s: %v\n", r.disk, r.err)
		m.at = rundir.Monotonic() + nextTry(r.err)
	}
	return r.err == nil
}

// nextTry is how long after one that failed the next one begins.
func nextTry(err error) time.Duration {
	var r *control.Refused
	if errors.As(err, &r) && r.Status == http.StatusServiceUnavailable {
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
		if disk := disk.WholeDisk(sys, e.Name()); disk != "" {
			return "/dev/" + disk
		}
	}
	return ""
}

// write asks the server for what is to be written, and writes it.
func (m *Renewer) write(ctx context.Context, path string) (int64, error) {
	disk, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer disk.Close()
	size, err := disk.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	req := api.NodeMedium{Boot: m.self().Boot}
	for i := range media.Slots {
		b := make([]byte, media.Sector)
		if _, err := disk.ReadAt(b, media.SlotAt(i)); err != nil {
			return 0, err
		}
		h := media.ParseHeader(b)
		req.Slots = append(req.Slots, api.MediumSlot{Sequence: h.Sequence, Digest: h.Digest})
	}
	stream, err := m.control.Stream(ctx, "/v1/node/medium", "Bearer "+m.self().Session, req)
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
