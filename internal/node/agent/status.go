package agent

import (
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/systemd"
)

// due is what the agent has to send now.
type due int

const (
	nothingDue due = iota
	heartbeat      // only that the node runs
	fullStatus     // the full status
)

// status sends the node's status and heartbeats.
type status struct {
	who        *identity
	sender     *sender
	record     *record
	incidents  *incidents
	commands   *commands
	waker      *waker
	root       string                             // mount point of the overlay
	extensions func() ([]fleet.Extension, string) // the attached ones, and why they differ from the assigned ones
	staged     func() fleet.Digest                // the staged version; "": none

	sent    time.Time // when the server accepted last
	last    api.NodeStatus
	beat    time.Duration // time without a report after which a heartbeat is due
	again   time.Time     // do not retry a failed report before this time
	wait    time.Duration // upper bound of the random delay that sets again
	systemd *api.Systemd
	asked   int // number of accounts from systemd, complete or not
}

// report reads the block daemon's counters and systemd's figures, and sends what is due.
func (w *status) report(ctx context.Context) {
	if time.Now().Before(w.again) {
		return
	}
	s := w.read(ctx)
	post, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var err error
	switch w.due(s) {
	case nothingDue:
		return
	case heartbeat:
		err = w.sender.send(post, nil, nil)
	case fullStatus:
		report := s
		if s.State == w.last.State {
			report.State = ""
		}
		if err = w.sender.send(post, nil, &report); err == nil {
			w.last, w.sent = s, time.Now()
		}
	}
	if err != nil {
		w.sender.logf("status cannot be reported: %v", err)
		w.later()
		return
	}
	w.beat, w.wait, w.again = nextBeat(), 0, time.Time{}
}

// later delays the next attempt by a random time, because all nodes wait for a server that comes back. The bound of
// the time doubles with each failure, up to beatEvery.
func (w *status) later() {
	w.wait = min(max(2*w.wait, 2*lookEvery), beatEvery)
	w.again = time.Now().Add(rand.N(w.wait))
}

// read returns the current status.
func (w *status) read(ctx context.Context) api.NodeStatus {
	s := api.NodeStatus{
		Version:    w.who.session.Version,
		Release:    w.who.release,
		WriteLayer: w.who.session.Writes,
		Bytes:      map[string]int64{},
	}
	b, err := w.incidents.status(ctx)
	if err == nil {
		s.Bytes, s.Reads, s.Rejected, s.Stalled = b.Bytes, b.Reads, b.Rejected, b.Stalled
	}
	s.Staged = w.staged()
	s.Extensions, s.ExtensionError = w.extensions()
	upperSpace(w.root, &s)
	s.State = readText(w.who.dir, fleet.StateReport, stateMost)
	if w.record.up.Load() && w.systemd == nil {
		w.askSystemd(ctx)
	}
	if s.Systemd = w.systemd; s.Systemd != nil { // only after the boot: they are most of a status
		s.Fed = b.Fed
	}
	return s
}

// stateMost bounds the report of the state, in bytes; 64 paths take less than a third.
const stateMost = 64 << 10

// readText returns up to most bytes of a file, "" if there is none.
func readText(dir, name string, most int64) string {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, most)) // on an error, return what was read
	return string(b)
}

// askSystemd stores systemd's account of the boot once it is complete, or was requested systemd.SystemdAsks times.
func (w *status) askSystemd(ctx context.Context) {
	account, whole := systemd.Read(ctx, systemd.Systemctl)
	if account != nil {
		w.asked++
	}
	if whole || w.asked >= systemd.SystemdAsks {
		w.systemd = account
	}
}

// due decides what to send. The full status: at once during a boot, because people watch, and later at most once in a
// while if it changed. A heartbeat, with a tenth of the bytes: when nothing was sent for a while.
func (w *status) due(s api.NodeStatus) due {
	since := time.Since(w.sent)
	spoke := w.sender.spoke.Load()
	switch {
	case w.sent.IsZero(),
		s.Fullness() != w.last.Fullness(),
		s.Rejected != w.last.Rejected,
		s.Staged != w.last.Staged,
		s.ExtensionError != w.last.ExtensionError,
		!slices.Equal(
			s.Extensions,
			w.last.Extensions,
		),
		s.State != w.last.State,
		(s.Systemd == nil) != (w.last.Systemd == nil):
		return fullStatus
	case (s.Reads != w.last.Reads || !maps.Equal(s.Bytes, w.last.Bytes)) &&
		(w.last.Systemd == nil || since >= figuresPause):
		return fullStatus
	case (s.UpperUsed != w.last.UpperUsed || s.Stalled != w.last.Stalled) && since >= spacePause:
		return fullStatus
	case w.waker.woken.Swap(false):
		return heartbeat
	case spoke == nil || time.Since(*spoke) >= w.beat || w.commands.recent():
		return heartbeat
	}
	return nothingDue
}

// interval returns the time until the loop runs again.
func (w *status) interval() time.Duration {
	if w.commands.recent() {
		return commandEvery
	}
	if !w.record.up.Load() || w.last.Systemd == nil && w.who.offset() < 10*time.Minute {
		return bootingEvery
	}
	return lookEvery
}

// nextBeat returns a new random time for each heartbeat, so that nodes that were switched on together spread out.
func nextBeat() time.Duration { return beatEvery*3/4 + rand.N(beatEvery/2) }

// upperSpace reads how full the write layer is: statfs of an overlay reports its upper layer.
func upperSpace(root string, s *api.NodeStatus) {
	var st unix.Statfs_t
	if unix.Statfs(root, &st) != nil {
		return
	}
	s.UpperUsed, s.UpperTotal = int64(st.Blocks-st.Bfree)*st.Bsize, int64(st.Blocks)*st.Bsize
	s.FilesUsed, s.FilesTotal = int64(st.Files-st.Ffree), int64(st.Files)
}
