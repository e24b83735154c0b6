package boot

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/media"
	"pando/internal/trace"
)

// When the boot medium of a running node is looked after: not while it boots, once in a boot, and again when that failed.
const (
	mediumGrace = time.Minute
	mediumAgain = 10 * time.Minute
)

// renewMedium brings kernel and initramfs on the node's boot medium in step with what the node runs.
func (a *agent) renewMedium(ctx context.Context) {
	if !a.booted.Load() || a.progress.Medium || monotonic() < max(a.progress.BootedAt+mediumGrace, a.mediumAt) {
		return
	}
	a.mediumAt = monotonic() + mediumAgain
	disk := mediumDisk(sysfs)
	if disk == "" {
		a.progress.Medium = true
		return
	}
	ctx, cancel := context.WithTimeout(ctx, mediumAgain)
	defer cancel()
	n, err := a.writeMedium(ctx, disk)
	switch {
	case err != nil:
		a.logf("boot medium %s: %v", disk, err)
		return
	case n > 0:
		a.event(trace.Event{Stage: trace.Booted, Kind: trace.Info,
			Message: fmt.Sprintf("boot medium %s has the kernel and initramfs of this version now", disk)})
	}
	a.progress.Medium = true
	a.keepProgress()
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
