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

// due is what the agent has to send about the node.
type due int

const (
	nothingDue due = iota
	heartbeat      // that the node runs, and nothing else
	fullStatus     // the whole status
)

// status reports how the node is.
type status struct {
	who        *identity
	sender     *sender
	record     *record
	incidents  *incidents
	commands   *commands
	waker      *waker
	root       string                             // mount point of the overlay
	extensions func() ([]fleet.Extension, string) // that are laid over the root, and why they are not others
	staged     func() fleet.Digest                // the version that is ready to be booted; "": none

	sent    time.Time // when last was taken by the server
	last    api.NodeStatus
	beat    time.Duration // how long the node is silent before it sends a heartbeat
	again   time.Time     // before which a status that did not arrive is not sent again
	wait    time.Duration // the longest that again may be off
	systemd *api.Systemd
	asked   int // times that systemd gave an account, whole or not
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
		w.sender.logf("report status: %v", err)
		w.later()
		return
	}
	w.beat, w.wait, w.again = nextBeat(), 0, time.Time{}
}

// later delays the next attempt by a random time that grows with each failure. When a server comes back, all nodes are
// waiting for it.
func (w *status) later() {
	w.wait = min(max(2*w.wait, 2*lookEvery), beatEvery)
	w.again = time.Now().Add(rand.N(w.wait))
}

// read is the status of this moment.
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
	if s.Systemd = w.systemd; s.Systemd != nil { // who sent it is a boot's last word: it is most of a status
		s.Fed = b.Fed
	}
	return s
}

// stateMost bounds what is told of the state; 64 paths take less than a third.
const stateMost = 64 << 10

// readText reads the beginning of a file, "" if there is none.
func readText(dir, name string, most int64) string {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, most)) // what can be read is told
	return string(b)
}

// askSystemd keeps systemd's account once it is whole, or asked for often enough.
func (w *status) askSystemd(ctx context.Context) {
	account, whole := systemd.Read(ctx, systemd.Systemctl)
	if account != nil {
		w.asked++
	}
	if whole || w.asked >= systemd.SystemdAsks {
		w.systemd = account
	}
}

// due decides what to send: the full status at once while people watch a boot, else now and then if it changed; a
// heartbeat, which has a tenth of the bytes, when nothing was sent for a while.
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

// interval is how soon the loop runs again.
func (w *status) interval() time.Duration {
	if w.commands.recent() {
		return commandEvery
	}
	if !w.record.up.Load() || w.last.Systemd == nil && w.who.offset() < 10*time.Minute {
		return bootingEvery
	}
	return lookEvery
}

// nextBeat is drawn anew each time, so that nodes that were switched on together do not go on speaking together.
func nextBeat() time.Duration { return beatEvery*3/4 + rand.N(beatEvery/2) }

// upperSpace reads how full the overlay's writable layer is, which statfs of an overlay shows.
func upperSpace(root string, s *api.NodeStatus) {
	var st unix.Statfs_t
	if unix.Statfs(root, &st) != nil {
		return
	}
	s.UpperUsed, s.UpperTotal = int64(st.Blocks-st.Bfree)*st.Bsize, int64(st.Blocks)*st.Bsize
	s.FilesUsed, s.FilesTotal = int64(st.Files-st.Ffree), int64(st.Files)
}
