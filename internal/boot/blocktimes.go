package boot

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"sync"
	"time"
)

// timesFile is where the kernel tells what the processors did, see proc_stat(5).
const timesFile = "/proc/stat"

// Times is that file, as init passes it to the daemons: it is one of their descriptors, because where they live
// there is no /proc.
type Times struct {
	File *os.File `json:"-"`
}

// openTimes returns nil where there is none. Then nothing waits for spare time.
func openTimes() *Times {
	f, err := os.Open(timesFile)
	if err != nil {
		return nil
	}
	return &Times{f}
}

// A machine is busy when less than sparePart of one processor was idle since the last look. A look is made when
// somebody asks and spareEvery has passed: the kernel counts in hundredths of a second.
const (
	sparePart  = 0.1
	spareEvery = 200 * time.Millisecond
	tick       = 10 * time.Millisecond
)

// spareTime knows whether the processors had time to spare of late.
type spareTime struct {
	file io.ReaderAt // nil: nobody knows

	mu   sync.Mutex
	at   time.Time
	idle time.Duration // of all processors, until then
	busy bool
}

func newSpareTime(t *Times) *spareTime {
	s := &spareTime{}
	if t != nil {
		s.file = t.File
	}
	s.look(time.Now())
	return s
}

// none tells whether there was none. A machine of which nobody knows is not busy.
func (s *spareTime) none() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.at) >= spareEvery {
		s.look(now)
	}
	return s.busy
}

// look takes a look. Callers hold mu.
func (s *spareTime) look(now time.Time) {
	if s.file == nil {
		return
	}
	head := make([]byte, 256)
	n, err := s.file.ReadAt(head, 0)
	idle, ok := idleTime(head[:n])
	if err != nil && err != io.EOF || !ok {
		s.file, s.busy = nil, false
		return
	}
	s.busy = !s.at.IsZero() && float64(idle-s.idle) < sparePart*float64(now.Sub(s.at))
	s.at, s.idle = now, idle
}

// idleTime is how long all processors did nothing since the machine started, as the first line of the file says;
// that they waited for a disk, such as the root, is as good.
func idleTime(stat []byte) (time.Duration, bool) {
	line, _, whole := bytes.Cut(stat, []byte{'\n'})
	f := bytes.Fields(line)
	if !whole || len(f) < 6 || string(f[0]) != "cpu" {
		return 0, false
	}
	idle, err := strconv.ParseInt(string(f[4]), 10, 64)
	wait, err2 := strconv.ParseInt(string(f[5]), 10, 64)
	return time.Duration(idle+wait) * tick, err == nil && err2 == nil
}
