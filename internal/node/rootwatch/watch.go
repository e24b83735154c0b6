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

// The root counts as lost after lostAfter failed checks in a row (two minutes). A supervisor replaces a daemon within
// five seconds, even if daemons keep dying.
const (
	lookEvery = 5 * time.Second
	lostAfter = 24
)

// Limits at the end for work that may hang too.
const (
	tellMost  = 30 * time.Second // for the last report
	syncMost  = 10 * time.Second // for local disks
	resetMost = 20 * time.Second // for the kernel's orderly reboot
)

// block is the root's block daemon.
type block interface {
	Status(ctx context.Context, since int64) (blockapi.Status, error)
}

// Watch monitors the root's block device.
type Watch struct {
	block block
	tell  func(ctx context.Context, why string) // reports why the node restarts; it may take until ctx ends
	ended func() bool                           // reports whether the node is about to leave this root

	read     func()      // reads a block of the device; it may never return
	inFlight func() bool // reports whether the kernel waits for reads of the device
	hangs    atomic.Bool // a read of the device has not ended
}

// New returns a Watch for /dev/nbdN, where N is device.
func New(device int, b block, tell func(context.Context, string), ended func() bool) *Watch {
	return &Watch{block: b, tell: tell, ended: ended, read: func() { readDevice(device) },
		inFlight: func() bool { return inFlight(device) }}
}

// Run checks the root until ctx ends. It locks this process in memory, because reading back a page may need the root.
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

// seen is the result of one check.
type seen struct {
	answers bool // the block daemon answers its socket
	waiting int  // reads that the daemon has not answered
	hangs   bool // the test read of the device has not ended
}

// look requests the daemon's status. If the daemon does not answer, or has no reads although the kernel waits for
// some, look starts a test read of the device, which shows whether the root works.
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

// readDevice reads a block of the device, bypassing the page cache.
func readDevice(device int) {
	const size = 4096
	fd, err := unix.Open(blockapi.DeviceNode(device), unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return // unknown does not count as lost
	}
	defer unix.Close(fd)
	page, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		_, _ = unix.Pread(fd, page, 0)
		_ = unix.Munmap(page)
	}
}

// judge counts consecutive checks that found the root not served.
type judge struct{ looks int }

// lost reports whether the root is lost. A daemon that has reads to answer waits for a server, which may come back.
func (j *judge) lost(s seen) bool {
	if !s.hangs || s.answers && s.waiting > 0 {
		j.looks = 0
		return false
	}
	j.looks++
	return j.looks >= lostAfter
}

// openedFiles are opened in advance, because nothing can be opened when the root is lost.
type openedFiles struct{ log, sysrq *os.File }

func openFiles() (d openedFiles) {
	d.log, _ = os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	d.sysrq, _ = os.OpenFile("/proc/sysrq-trigger", os.O_WRONLY, 0)
	return d
}

// write appends a line to the kernel's log, which may be forwarded to the server.
func (d openedFiles) write(level, text string) {
	_, _ = d.log.WriteString(level + "pando: " + text + "\n")
}

func (d openedFiles) close() {
	d.log.Close()
	d.sysrq.Close()
}

// why is the report of a node that restarts because of its root.
const why = "nobody answers reads of its root any more: its block daemon and what watches it are gone; the node " +
	"restarts"

// restart ends this boot without using anything on the root. It does not return.
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

// within calls do and waits until it has ended, at most for the time most.
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
