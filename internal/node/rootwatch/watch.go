package rootwatch

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/rootdaemon"
)

// A look every lookEvery. A supervisor replaces a daemon within a second, and waits five at most when it keeps dying;
// lostAfter looks in a row, two minutes and more, are no pause between two daemons.
const (
	lookEvery = 5 * time.Second
	lostAfter = 24
)

// How long is waited at the end for what may hang too.
const (
	tellMost  = 30 * time.Second // for the last report
	syncMost  = 10 * time.Second // for local disks
	resetMost = 20 * time.Second // for the kernel's orderly restart
)

// block is the daemon behind the root.
type block interface {
	Status(ctx context.Context, since int64) (blockapi.Status, error)
}

// Watch looks after the root's block device.
type Watch struct {
	block block
	tell  func(ctx context.Context, why string) // tells a server why the node restarts; it may take until ctx ends
	ended func() bool                           // the root is about to be left

	read     func()      // reads a block of the device; it may never return
	inFlight func() bool // the kernel waits for reads of the device
	hangs    atomic.Bool // a read of the device has not ended
}

// New watches /dev/nbdN.
func New(device int, b block, tell func(context.Context, string), ended func() bool) *Watch {
	return &Watch{block: b, tell: tell, ended: ended, read: func() { readDevice(device) },
		inFlight: func() bool { return inFlight(device) }}
}

// Run looks until ctx ends. It locks this process in memory: to get a page back it may have to wait for the root.
func (w *Watch) Run(ctx context.Context) {
	files := openFiles()
	defer files.close()
	if err := rootdaemon.LockMemory(); err != nil {
		files.write("<4>", err.Error())
	}
	var j judge
	for tick := time.NewTicker(lookEvery); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		if !w.ended() && j.lost(w.look(ctx)) && ctx.Err() == nil {
			w.restart(ctx, files)
		}
	}
}

// seen is what one look sees.
type seen struct {
	answers bool // the block daemon does
	waiting int  // reads that it has not answered
	hangs   bool // the read of the device has not ended
}

// look asks the daemon. While it does not answer, or seems not to get what the kernel asks for, a read of the device
// shows whether the root works all the same.
func (w *Watch) look(ctx context.Context) (s seen) {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	st, err := w.block.Status(ctx, 0)
	s.answers, s.waiting, s.hangs = err == nil, st.Waiting, w.hangs.Load()
	if !s.hangs && (!s.answers || s.waiting == 0 && w.inFlight()) {
		w.hangs.Store(true)
		go func() {
			defer w.hangs.Store(false)
			w.read()
		}()
	}
	return s
}

func inFlight(device int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/sys/block/nbd%d/inflight", device))
	reads, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return reads != "" && reads != "0"
}

// readDevice reads past the page cache.
func readDevice(device int) {
	const size = 4096
	fd, err := unix.Open(blockapi.DeviceNode(device), unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return // nothing is known, and so nothing is lost
	}
	defer unix.Close(fd)
	page, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		_, _ = unix.Pread(fd, page, 0)
		_ = unix.Munmap(page)
	}
}

// judge counts looks in a row at a root that nobody serves.
type judge struct{ looks int }

// lost reports whether nobody serves the root, and nobody is going to. A daemon that has reads to answer waits for a
// server, which may come back.
func (j *judge) lost(s seen) bool {
	if !s.hangs || s.answers && s.waiting > 0 {
		j.looks = 0
		return false
	}
	j.looks++
	return j.looks >= lostAfter
}

// openedFiles are opened before they are needed, when nothing can be opened any more.
type openedFiles struct{ log, sysrq *os.File }

func openFiles() (d openedFiles) {
	d.log, _ = os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	d.sysrq, _ = os.OpenFile("/proc/sysrq-trigger", os.O_WRONLY, 0)
	return d
}

// write adds a line to the kernel's log, which may be on its way to the server.
func (d openedFiles) write(level, text string) {
	_, _ = d.log.WriteString(level + "pando: " + text + "\n")
}

func (d openedFiles) close() {
	d.log.Close()
	d.sysrq.Close()
}

// why is what a node tells that restarts because of its root.
const why = "nobody answers reads of its root any more: its block daemon and what watches it are gone; the node " +
	"restarts"

// restart ends this boot without anything that is on the root. It does not return.
func (w *Watch) restart(ctx context.Context, d openedFiles) {
	d.write("<2>", why)
	within(tellMost, func() {
		tell, cancel := context.WithTimeout(ctx, tellMost)
		defer cancel()
		w.tell(tell, why)
	})
	within(syncMost, unix.Sync)
	within(resetMost, func() { _ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) })
	_, _ = d.sysrq.WriteString("b")
}

// within waits until do has ended, but not for longer than most.
func within(most time.Duration, do func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do()
	}()
	select {
	case <-ended:
	case <-time.After(most):
	}
}
