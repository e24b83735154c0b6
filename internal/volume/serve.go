package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// volume is who has one.
type volume struct {
	slot chan struct{} // full while somebody has it

	mu     sync.Mutex
	cut    context.CancelCauseFunc // of who has it, or waits for it; nil: nobody
	served bool
}

func (v *volume) attached() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.served
}

// ErrTaken ends the connection of who had a volume before.
var ErrTaken = errors.New("somebody else has the volume now")

// take cuts off who has the volume, and waits for its end. give ends this turn.
func (v *volume) take(ctx context.Context) (slot context.Context, give func(), err error) {
	slot, cut := context.WithCancelCause(ctx)
	v.mu.Lock()
	if v.cut != nil {
		v.cut(ErrTaken)
	}
	v.cut = cut
	v.mu.Unlock()
	select {
	case v.slot <- struct{}{}:
	case <-slot.Done():
		return nil, nil, context.Cause(slot)
	}
	return slot, func() {
		cut(nil)
		v.mu.Lock()
		v.served = false
		v.mu.Unlock()
		<-v.slot
	}, nil
}

// Serve gives a connection to a volume until either side ends it, or somebody else takes it. The volume is made if
// it is not there. The other end speaks NBD from its first byte, and has the export called volume.
func (d *Dir) Serve(ctx context.Context, name string, want Want, c net.Conn) error {
	d.serving.Add(1)
	defer d.serving.Done()
	v := d.of(name)
	ctx, give, err := v.take(ctx)
	if err != nil {
		return err
	}
	defer give()
	if err := d.ensure(ctx, name, want); err != nil {
		return err
	}
	p, err := d.start(name)
	if err != nil {
		return err
	}
	return v.pass(ctx, p, c)
}

// pass hands a connection to a daemon until either side ends it, and ends the daemon.
func (v *volume) pass(ctx context.Context, p *process, c net.Conn) error {
	defer p.stop()
	up, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer up.Close()
	v.mu.Lock()
	v.served = true
	v.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { c.Close(); up.Close() })
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(up, c) // its end is all that it can tell
		up.Close()
		c.Close()
	}()
	_, _ = io.Copy(c, up)
	up.Close()
	c.Close()
	<-done
	return context.Cause(ctx)
}

// Wait returns when nothing is served any more. The caller ends the contexts of Serve first.
func (d *Dir) Wait() { d.serving.Wait() }

// process is a qemu-storage-daemon for one volume.
type process struct {
	name   string
	dir    string
	cmd    *exec.Cmd
	output strings.Builder
	ended  chan struct{}
	socket string
}

// start starts the daemon of a volume, after it has ended one that an earlier server left.
//
// Every write is on disk before it is acknowledged (writethrough): a node does not repeat an acknowledged write, so a
// killed daemon or a power cut would leave a hole in its file system.
func (d *Dir) start(name string) (*process, error) {
	return startDaemon(d.path, name, d.log,
		"--blockdev", "driver=file,node-name=file,discard=unmap,filename="+strings.ReplaceAll(name, ",", ",,")+suffix,
		"--blockdev", "driver=qcow2,node-name=volume,file=file,discard=unmap",
		"--export", "type=nbd,id=export,node-name=volume,name=volume,writable=on,writethrough=on")
}

// startDaemon starts a daemon in a directory, for what its arguments say.
func startDaemon(dir, name string, log *slog.Logger, args ...string) (*process, error) {
	p := &process{name: name, dir: dir, ended: make(chan struct{}), socket: name + ".sock"}
	endStale(filepath.Join(dir, name+".pid"), p.socket)
	_ = os.Remove(filepath.Join(dir, p.socket))
	args = append([]string{"--pidfile", name + ".pid", "--nbd-server", "addr.type=unix,addr.path=" + p.socket}, args...)
	p.cmd = exec.Command("qemu-storage-daemon", args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf(
			"serve volume %s (the package qemu-system-common has qemu-storage-daemon): %w",
			name,
			err,
		)
	}
	go func() {
		defer close(p.ended)
		if err := p.cmd.Wait(); err != nil {
			log.Warn(
				"qemu-storage-daemon ended",
				"volume",
				name,
				"err",
				err,
				"said",
				strings.TrimSpace(p.output.String()),
			)
		}
	}()
	return p, nil
}

// endStale ends the daemon that a pid file names, if it is one of this socket, and waits for it.
func endStale(pidFile, socket string) {
	b, err := os.ReadFile(pidFile)
	pid, e := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || e != nil || pid < 2 {
		return
	}
	for range 100 {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || !strings.Contains(string(line), "addr.path="+socket) {
			return
		}
		_ = unix.Kill(pid, unix.SIGTERM) // it is asked again until it is gone
		time.Sleep(50 * time.Millisecond)
	}
}

// stop ends the daemon when all its writes are on disk. It repeats the signal until the daemon is gone:
// qemu-storage-daemon only sets a flag, and a signal just before its wait for events takes effect only after the next
// event.
func (p *process) stop() {
	for {
		_ = p.cmd.Process.Signal(unix.SIGTERM) // or it is gone already
		select {
		case <-p.ended:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// dial connects to the daemon as soon as it listens. Names of sockets are short, so the way to it leads over an
// open directory.
func (p *process) dial(ctx context.Context) (net.Conn, error) {
	dir, err := os.Open(p.dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), p.socket)
	for {
		var c net.Conn
		if c, err = new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
			return c, nil
		}
		select {
		case <-p.ended:
			return nil, fmt.Errorf("volume %s: qemu-storage-daemon: %s", p.name, strings.TrimSpace(p.output.String()))
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
