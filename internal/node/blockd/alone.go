package blockd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/nbd"
	"pando/internal/rootdaemon"
)

// Alone is a block daemon without kernel and supervisor. Its caller has the client's end of its socket. The lab
// measures daemons this way on machines that lack an NBD device or run many daemons.
type Alone struct {
	Device *nbd.Client // reads of the root
	Client blockapi.Client

	process *os.Process
	control *controlConn
	memory  *os.File
}

// StartAlone starts the program binary in the role DaemonName. The daemon runs in directory dir. StartAlone returns
// when it can answer reads.
func StartAlone(ctx context.Context, binary, dir string, c blockapi.Config, log *os.File) (*Alone, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	a := &Alone{Client: blockapi.Client{Socket: filepath.Join(dir, blockapi.Socket)}}
	err := a.start(binary, dir, c, log)
	if err == nil {
		err = a.ready(ctx)
	}
	if err != nil {
		a.Close()
		return nil, fmt.Errorf("start %s alone: %w", blockapi.DaemonName, err)
	}
	return a, nil
}

func (a *Alone) start(binary, dir string, c blockapi.Config, log *os.File) (err error) {
	kernelEnd, daemonEnd, err := rootdaemon.SocketPair("nbd")
	if err != nil {
		return err
	}
	defer kernelEnd.Close()
	defer daemonEnd.Close()
	control, theirs, err := rootdaemon.SocketPair("control")
	if err != nil {
		return err
	}
	defer theirs.Close()
	if a.control, err = newControlConn(control); err != nil {
		return err
	}
	if _, a.memory, err = newLedger(); err != nil {
		return err
	}
	conn, err := net.FileConn(kernelEnd)
	if err != nil {
		return err
	}
	a.Device = nbd.NewClient(conn)
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	a.process, err = rootdaemon.Start(
		rootdaemon.Spec{Name: blockapi.DaemonName, Binary: binary, Alone: true, Dir: dir, Stdin: config, Log: log,
			Files: append([]*os.File{daemonEnd, a.memory, theirs}, c.Files()...)},
	)
	return err
}

// ready waits for the daemon's first message.
func (a *Alone) ready(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = a.control.SetReadDeadline(time.Now()) })
	defer stop()
	m, err := a.control.receive()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("it ended: %w", err)
	case m.Fail != "":
		return errors.New(m.Fail)
	}
	return nil
}

// PID returns the daemon's process ID.
func (a *Alone) PID() int { return a.process.Pid }

// Close disconnects the device as a shutdown does. If the daemon does not end within five seconds, Close kills it.
func (a *Alone) Close() {
	if a.Device != nil {
		_ = a.Device.Close() // it may have ended before
	}
	if a.process != nil {
		kill := time.AfterFunc(5*time.Second, func() { _ = unix.Kill(a.process.Pid, unix.SIGKILL) })
		_, _ = a.process.Wait()
		kill.Stop()
	}
	if a.control != nil {
		a.control.Close()
	}
	if a.memory != nil {
		a.memory.Close()
	}
}
