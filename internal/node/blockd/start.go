package blockd

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/rootdaemon"
)

// startDaemon starts a block daemon and returns the kernel's end of its socket. Afterwards only the daemon has its
// own end open: otherwise the kernel would not notice that the daemon died.
func (s *supervisor) startDaemon() (d *daemonHandle, kernelEnd *os.File, err error) {
	kernelEnd, daemonEnd, err := rootdaemon.SocketPair("nbd")
	if err != nil {
		return nil, nil, err
	}
	defer daemonEnd.Close()
	control, theirs, err := rootdaemon.SocketPair("control")
	if err != nil {
		kernelEnd.Close()
		return nil, nil, err
	}
	defer theirs.Close()
	conn, err := newControlConn(control)
	if err != nil {
		kernelEnd.Close()
		return nil, nil, err
	}
	config, err := json.Marshal(s.cfg)
	var p *os.Process
	if err == nil {
		p, err = rootdaemon.Start(
			rootdaemon.Spec{Name: blockapi.DaemonName, Binary: s.binary, Stdin: config, Log: os.Stderr,
				Files: append([]*os.File{daemonEnd, s.memory, theirs}, s.cfg.Files()...)},
		)
	}
	if err != nil {
		kernelEnd.Close()
		conn.Close()
		return nil, nil, err
	}
	return watchDaemon(conn, func() string {
		st, err := p.Wait()
		if err != nil {
			return err.Error()
		}
		return st.String()
	}), kernelEnd, nil
}

// watchDaemon returns a handle that receives a daemon's messages and, from wait, how it ended.
func watchDaemon(conn *controlConn, wait func() string) *daemonHandle {
	d := &daemonHandle{messages: make(chan controlMessage), died: make(chan string, 1)}
	go func() {
		defer conn.Close()
		defer close(d.messages)
		for {
			m, err := conn.receive()
			if err != nil {
				return
			}
			d.messages <- m
		}
	}()
	go func() { d.died <- wait() }()
	return d
}

// adoptArg is the argument of a supervisor that a block daemon started because its supervisor had died.
const adoptArg = "adopt"

// File descriptors of such a supervisor, besides standard input, output and error.
const (
	adoptControlFD = 3 // the supervisor's end of the control socket
	adoptLedgerFD  = 4
	adoptPidFD     = 5 // pidfd of the daemon, which is not its child
	adoptDiskFD    = 6 // first of the optional descriptors: the cache disk, or the socket over which init sends it
)

// adopt takes over the daemon that started this supervisor.
func (s *supervisor) adopt() error {
	for _, fd := range []int{adoptControlFD, adoptLedgerFD, adoptPidFD} {
		unix.CloseOnExec(fd)
	}
	s.cfg.TakeFiles(adoptDiskFD)
	s.attached = true
	s.memory = os.NewFile(adoptLedgerFD, "ledger")
	conn, err := newControlConn(os.NewFile(adoptControlFD, "control"))
	if err != nil {
		return err
	}
	if s.ledger, err = openLedger(s.memory); err != nil {
		return err
	}
	s.daemon = watchDaemon(conn, func() string { return waitPidFD(adoptPidFD) })
	s.log.Info("block supervisor replaced")
	return nil
}

// waitPidFD waits for the end of a process that is not a child. PID 1 reaps it.
func waitPidFD(fd int) string {
	defer unix.Close(fd)
	for {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		switch _, err := unix.Poll(p, -1); err {
		case unix.EINTR:
		case nil:
			return "its exit status went to PID 1"
		default:
			return fmt.Sprintf("its end cannot be waited for: %v", err)
		}
	}
}
