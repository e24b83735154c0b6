package blockd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/nbd"
	"pando/internal/rootdaemon"
)

// attacher is the kernel's side of the device.
type attacher interface {
	Connect(sock *os.File) error
	Reconnect(sock *os.File) error
}

// supervisor is the role SupervisorName: it keeps a block daemon attached to the kernel's device. It serves no reads
// and allocates almost no memory.
type supervisor struct {
	cfg      blockapi.Config
	binary   string
	log      *slog.Logger
	kernel   attacher
	ledger   ledger
	memory   *os.File // the ledger's
	ready    *os.File // to init; nil when init has its answer
	timeout  *os.File // io_timeout of the device; nil once it is written
	attached bool
	daemon   *daemonHandle
}

// daemonHandle is a block daemon that runs.
type daemonHandle struct {
	messages chan controlMessage // closed when the control socket is
	died     chan string         // one value: how it ended
}

// RunSupervisor is the role SupervisorName; it returns the exit status. Package node calls it by argv[0].
func RunSupervisor() int {
	log := rootdaemon.Log(blockapi.SupervisorName)
	s, err := newSupervisor(log)
	if err == nil {
		err = s.run(context.Background())
	}
	if err != nil {
		log.Error("block supervisor ends", "err", err)
		return 1
	}
	return 0
}

func newSupervisor(log *slog.Logger) (*supervisor, error) {
	if err := rootdaemon.Become(8<<20, 50); err != nil {
		return nil, err
	}
	if len(os.Args) < 2 {
		return nil, errors.New("called without the path of its program")
	}
	s := &supervisor{log: log, binary: os.Args[1]}
	var err error
	if s.cfg, err = readBlockConfig(os.Stdin); err != nil {
		return nil, err
	}
	s.kernel = nbd.KernelDevice{Index: s.cfg.Device, Size: s.cfg.Size, BlockSize: 4096,
		Backend: s.cfg.Index.String(), DeadTimeout: blockapi.DeadTimeout}
	if len(os.Args) > 2 && os.Args[2] == adoptArg {
		return s, s.adopt()
	}
	s.cfg.TakeFiles(superDiskFD)
	s.ready = os.NewFile(superReadyFD, "ready")
	s.timeout = os.NewFile(superTimeoutFD, "io_timeout")
	unix.CloseOnExec(superReadyFD)
	unix.CloseOnExec(superTimeoutFD)
	s.ledger, s.memory, err = newLedger()
	return s, err
}

// run returns an error only before the device was attached. After that it returns when ctx is done and its
// daemon has ended, which on a node is never.
func (s *supervisor) run(ctx context.Context) error {
	for failures := 0; ; {
		begun := time.Now()
		how, err := s.oneDaemon()
		if err != nil {
			s.tellInit(err.Error())
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		s.ledger.add(countRestarts, 1)
		s.ledger.report(
			blockapi.Incident{
				Kind:    blockapi.Reattached,
				Message: "the block daemon ended (" + how + "); another takes over",
			},
		)
		s.log.Warn("block daemon ended, starting another", "how", how)
		// At once, unless it keeps dying: then reads wait a little longer and the machine stays usable.
		if time.Since(begun) > 10*time.Second {
			failures = 0
		}
		time.Sleep(min(time.Duration(failures)*200*time.Millisecond, 5*time.Second))
		failures++
	}
}

// oneDaemon starts a daemon, or takes the adopted one, attaches it and returns how it ended. It returns an error only
// for what another daemon would not fix.
func (s *supervisor) oneDaemon() (how string, err error) {
	d := s.daemon
	s.daemon = nil
	if d == nil {
		var kernelEnd *os.File
		if d, kernelEnd, err = s.startDaemon(); err != nil {
			if !s.attached {
				return "", err
			}
			// Memory or process ids may be short for now; the root is gone if this gives up.
			return err.Error(), nil
		}
		err = s.attach(d, kernelEnd)
		kernelEnd.Close()
		if err != nil {
			return "", err
		}
	}
	for m := range d.messages {
		if m.Network != nil {
			s.cfg.Network = *m.Network
		}
	}
	return <-d.died, nil
}

// attach gives the kernel its end of d's socket. At the first time it waits until d can answer, so that init
// learns of an image that cannot be read. A daemon that takes over is attached at once: requests wait in the
// socket, and reads that are there already must not wait for a server.
func (s *supervisor) attach(d *daemonHandle, kernelEnd *os.File) error {
	if s.attached {
		return s.reattach(d, kernelEnd)
	}
	m, ok := <-d.messages
	switch {
	case !ok:
		return nil // it died; the caller finds out how
	case m.Fail != "":
		return errors.New(m.Fail)
	}
	if err := s.kernel.Connect(kernelEnd); err != nil {
		return err
	}
	s.attached = true
	if err := s.setTimeout(); err != nil {
		s.log.Warn("a killed block daemon will cost 30 s instead of 2", "err", err)
	}
	s.log.Info("root device attached", "device", s.cfg.Device, "bytes", s.cfg.Size)
	s.tellInit("ready")
	return nil
}

// reattach repeats until the kernel takes the socket: it refuses with ENOSPC while it has not noticed yet
// that the old one is dead.
func (s *supervisor) reattach(d *daemonHandle, kernelEnd *os.File) error {
	for try := 0; ; try++ {
		err := s.kernel.Reconnect(kernelEnd)
		if err == nil {
			s.log.Info("root device re-attached", "tries", try+1)
			return nil
		}
		if try%100 == 0 {
			s.log.Warn("re-attach", "err", err)
		}
		select {
		case how := <-d.died:
			d.died <- how
			return nil // another daemon, another socket
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *supervisor) setTimeout() error {
	if s.timeout == nil {
		return nil
	}
	defer func() { s.timeout.Close(); s.timeout = nil }()
	_, err := fmt.Fprintf(s.timeout, "%d", blockapi.RequeueAfter.Milliseconds())
	return err
}

func (s *supervisor) tellInit(line string) {
	if s.ready == nil {
		return
	}
	fmt.Fprintln(s.ready, line) // an init that does not listen any more needs no answer
	s.ready.Close()
	s.ready = nil
}

// File descriptors of a supervisor that init starts, beside standard input (the blockapi.Config as JSON),
// output and error. A supervisor that a block daemon starts has the daemon's control socket, the ledger and
// the daemon's pidfd instead (see adopt.go).
const (
	superReadyFD   = 3 // it writes one line when the kernel has its device, or why it gave up
	superTimeoutFD = 4 // /sys/block/nbdN/queue/io_timeout, open for writing
	superDiskFD    = 5 // and on: the cache's disk, and what tells the processors' times, if there are
)
