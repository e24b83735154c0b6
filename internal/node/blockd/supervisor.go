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

// attacher connects sockets to the kernel's device.
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
	memory   *os.File // file of the ledger
	ready    *os.File // pipe to init; nil once init has its answer
	timeout  *os.File // io_timeout file of the device; nil once it is written
	attached bool
	daemon   *daemonHandle
}

// daemonHandle is a running block daemon.
type daemonHandle struct {
	messages chan controlMessage // closed together with the control socket
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

// run returns an error only if the device was never attached. Later it returns when ctx ends and its daemon has
// ended, which happens only in tests.
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
		// The first replacement starts at once. If daemons keep dying, the pause grows, so that the machine stays
		// usable.
		if time.Since(begun) > 10*time.Second {
			failures = 0
		}
		time.Sleep(min(time.Duration(failures)*200*time.Millisecond, 5*time.Second))
		failures++
	}
}

// oneDaemon starts a daemon, or takes the adopted one, attaches it and returns how it ended. It returns an error only
// if another daemon would not help.
func (s *supervisor) oneDaemon() (how string, err error) {
	d := s.daemon
	s.daemon = nil
	if d == nil {
		var kernelEnd *os.File
		if d, kernelEnd, err = s.startDaemon(); err != nil {
			if !s.attached {
				return "", err
			}
			// Memory or process IDs may be short for a moment. Giving up would lose the root.
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

// attach gives the kernel its end of the daemon's socket. The first time it waits until the daemon can answer, so
// that init learns of an unreadable image. A replacement is attached at once: waiting requests must reach it without
// delay.
func (s *supervisor) attach(d *daemonHandle, kernelEnd *os.File) error {
	if s.attached {
		return s.reattach(d, kernelEnd)
	}
	m, ok := <-d.messages
	switch {
	case !ok:
		return nil // the daemon died; the caller learns how
	case m.Fail != "":
		return errors.New(m.Fail)
	}
	if err := s.kernel.Connect(kernelEnd); err != nil {
		return err
	}
	s.attached = true
	if err := s.setTimeout(); err != nil {
		s.log.Warn("reads will wait 30 s instead of 2 when a block daemon is replaced", "err", err)
	}
	s.log.Info("root device attached", "device", s.cfg.Device, "bytes", s.cfg.Size)
	s.tellInit("ready")
	return nil
}

// reattach repeats until the kernel accepts the socket. The kernel returns ENOSPC until it has noticed that the old
// socket is dead.
func (s *supervisor) reattach(d *daemonHandle, kernelEnd *os.File) error {
	for try := 0; ; try++ {
		err := s.kernel.Reconnect(kernelEnd)
		if err == nil {
			s.log.Info("root device re-attached", "tries", try+1)
			return nil
		}
		if try%100 == 0 {
			s.log.Warn("root device cannot be re-attached", "err", err)
		}
		select {
		case how := <-d.died:
			d.died <- how
			return nil // the next daemon has another socket
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
	fmt.Fprintln(s.ready, line) // init may have stopped reading
	s.ready.Close()
	s.ready = nil
}

// File descriptors of a supervisor that init starts, besides standard input (blockapi.Config as JSON), output and
// error. A supervisor that a block daemon starts has other descriptors (start.go: adoptControlFD).
const (
	superReadyFD   = 3 // the supervisor writes "ready" or an error to it
	superTimeoutFD = 4 // /sys/block/nbdN/queue/io_timeout, open for writing
	superDiskFD    = 5 // first of the optional descriptors: the cache disk, or the socket over which init sends it
)
