package boot

import (
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"

	"golang.org/x/sys/unix"
)

// word is what the agent has to say of the node's state.
type word int

const (
	silence word = iota
	alive        // that the node runs, and nothing else
	figures      // the whole status
)

// status reads the daemons' counters and systemd's figures, reports incidents, and says what is worth saying.
func (a *agent) status(ctx context.Context) {
	if time.Now().Before(a.again) {
		return
	}
	s := a.read(ctx)
	post, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var err error
	switch a.due(s) {
	case silence:
		return
	case alive:
		err = a.send(post, nil, nil)
	case figures:
		said := s
		if s.State == a.last.State {
			said.State = ""
		}
		if err = a.send(post, nil, &said); err == nil {
			a.last, a.sent = s, time.Now()
		}
	}
	if err != nil {
		a.logf("report status: %v", err)
		a.later()
		return
	}
	a.beat, a.wait, a.again = nextBeat(), 0, time.Time{}
}

// later puts the next try off by chance, and by more each time: when a server comes back all nodes are waiting for it.
func (a *agent) later() {
	a.wait = min(max(2*a.wait, 2*lookEvery), beatEvery)
	a.again = time.Now().Add(rand.N(a.wait))
}

// read is the status of this moment.
func (a *agent) read(ctx context.Context) api.NodeStatus {
	s := api.NodeStatus{
		Version:    a.session.Version,
		Release:    a.release,
		WriteLayer: a.session.Writes,
		Bytes:      map[string]int64{},
	}
	b, err := a.counted(ctx)
	if err == nil {
		s.Bytes, s.Reads, s.Rejected, s.Stalled = b.Bytes, b.Reads, b.Rejected, b.Stalled
	}
	if m := a.staged.Load(); m != nil {
		s.Staged = m.assigned().Version
	}
	s.Extensions, s.ExtensionError = a.extensions.has()
	upperSpace(a.root, &s)
	s.State = readText(a.dir, fleet.StateReport, stateMost)
	if a.booted.Load() && a.systemd == nil {
		a.askSystemd(ctx)
	}
	if s.Systemd = a.systemd; s.Systemd != nil { // who sent it is a boot's last word: it is most of a status
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
func (a *agent) askSystemd(ctx context.Context) {
	account, whole := readSystemd(ctx, systemctl)
	if account != nil {
		a.asked++
	}
	if whole || a.asked >= systemdAsks {
		a.systemd = account
	}
}

// due tells what to say: figures at once while people watch a boot, else now and then if they changed; a sign of life,
// which is a tenth of their bytes, when nothing was said for a while.
func (a *agent) due(s api.NodeStatus) word {
	since := time.Since(a.sent)
	spoke := a.spoke.Load()
	switch {
	case a.sent.IsZero(),
		s.Fullness() != a.last.Fullness(),
		s.Rejected != a.last.Rejected,
		s.Staged != a.last.Staged,
		s.ExtensionError != a.last.ExtensionError,
		!slices.Equal(
			s.Extensions,
			a.last.Extensions,
		),
		s.State != a.last.State,
		(s.Systemd == nil) != (a.last.Systemd == nil):
		return figures
	case (s.Reads != a.last.Reads || !maps.Equal(s.Bytes, a.last.Bytes)) && (a.last.Systemd == nil || since >= figuresPause):
		return figures
	case (s.UpperUsed != a.last.UpperUsed || s.Stalled != a.last.Stalled) && since >= spacePause:
		return figures
	case a.nudged.Swap(false):
		return alive
	case spoke == nil || time.Since(*spoke) >= a.beat || a.errands.recent():
		return alive
	}
	return silence
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
