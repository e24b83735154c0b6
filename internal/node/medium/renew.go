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

// The boot medium is updated once in a boot, mediumGrace after booted, and again after a failure. If the server is
// busy with other nodes' media, the next attempt is at a random time: many nodes boot together.
const (
	mediumGrace = time.Minute
	mediumAgain = 10 * time.Minute
	busyLeast   = time.Minute
	busyMost    = 5 * time.Minute
)

// Renewer updates the node's boot medium. A USB stick may be slow or hang, so a goroutine does the work, and the
// agent's loop only gets the result.
type Renewer struct {
	control *control.Client
	self    func() rundir.Session
	wake    func() // makes the agent's loop run soon
	log     io.Writer

	done chan mediumResult // result of the running attempt; nil: none runs
	at   time.Duration     // CLOCK_MONOTONIC of the earliest next attempt
}

// New returns a Renewer for the medium of the node self. wake makes the agent's loop run soon.
func New(control *control.Client, self func() rundir.Session, wake func(), log io.Writer) *Renewer {
	return &Renewer{control: control, self: self, wake: wake, log: log}
}

// mediumResult is the result of an attempt.
type mediumResult struct {
	disk  string // "": the node has no medium
	wrote int64  // bytes; 0: it was up to date
	err   error
}

// Look updates kernel and initramfs on the node's boot medium to those that the node runs, some time after booted. It
// starts an attempt when one is due, one at a time, and returns true once when one has succeeded.
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

// try runs in its own goroutine, and uses nothing that belongs to the loop.
func (m *Renewer) try(ctx context.Context) (r mediumResult) {
	if r.disk = mediumDisk(hardware.Sysfs); r.disk == "" {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, mediumAgain)
	defer cancel()
	r.wrote, r.err = m.write(ctx, r.disk)
	return r
}

// ended reports whether an attempt succeeded. After a failure it sets the time of the next one.
func (m *Renewer) ended(r mediumResult) bool {
	if r.err != nil {
		fmt.Fprintf(m.log, "boot medium %s: %v\n", r.disk, r.err)
		m.at = rundir.Monotonic() + nextTry(r.err)
	}
	return r.err == nil
}

// nextTry returns how long after a failure the next attempt begins.
func nextTry(err error) time.Duration {
	var r *control.Refused
	if errors.As(err, &r) && r.Status == http.StatusServiceUnavailable {
		return busyLeast + rand.N(busyMost-busyLeast)
	}
	return mediumAgain
}

// mediumDisk returns the disk that has slots for kernel and initramfs, "" if there is none.
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

// write requests the slots' new content from the server, and writes it.
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

// slots is a disk on which only the slots may be written.
type slots struct{ *os.File }

// WriteAt refuses writes outside of the slots.
func (s slots) WriteAt(p []byte, at int64) (int, error) {
	if at < media.SlotAt(0) || at+int64(len(p)) > media.SlotAt(media.Slots) {
		return 0, fmt.Errorf("a write of %d bytes at %d is not for a slot", len(p), at)
	}
	return s.File.WriteAt(p, at)
}
