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

// volume holds the current connection of a volume.
type volume struct {
	slot chan struct{} // full while a connection or operation holds the volume

	mu     sync.Mutex
	cut    context.CancelCauseFunc // ends the context of the latest holder or waiter; nil: none
	served bool
}

func (v *volume) attached() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.served
}

// ErrTaken closes the previous holder's connection when another takes the volume.
var ErrTaken = errors.New("another connection has taken the volume")

// take cancels the current holder of the volume and waits until it has ended. It returns a context that ends when
// another caller takes the volume, and give, which releases the volume.
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

// Serve connects c to a volume until either side ends the connection, or another caller takes the volume. It makes the
// volume if there is none. The client speaks NBD from the first byte; the export is called volume.
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

// pass connects c to a daemon until either side ends the connection, and then stops the daemon.
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
		_, _ = io.Copy(up, c) // an error only means that the connection has ended
		up.Close()
		c.Close()
	}()
	_, _ = io.Copy(c, up)
	up.Close()
	c.Close()
	<-done
	return context.Cause(ctx)
}

// Wait returns when no connection is served any more. The caller must end the contexts of Serve first.
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

// start starts the daemon of a volume. It first ends a daemon that an earlier server left. Every write is on disk
// before it is acknowledged (writethrough): a node does not repeat an acknowledged write, so a killed daemon or a power
// cut would damage its file system.
func (d *Dir) start(name string) (*process, error) {
	return startDaemon(d.path, name, d.log,
		"--blockdev", "driver=file,node-name=file,discard=unmap,filename="+strings.ReplaceAll(name, ",", ",,")+suffix,
		"--blockdev", "driver=qcow2,node-name=volume,file=file,discard=unmap",
		"--export", "type=nbd,id=export,node-name=volume,name=volume,writable=on,writethrough=on")
}

// startDaemon starts qemu-storage-daemon in a directory with these arguments.
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

// endStale ends the daemon that a pid file names, if its command line has this socket, and waits for its end.
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
		_ = unix.Kill(pid, unix.SIGTERM) // repeated until the process is gone
		time.Sleep(50 * time.Millisecond)
	}
}

// stop ends the daemon when all its writes are on disk. It repeats the signal until the daemon is gone: a signal just
// before the daemon waits for events takes effect only after the next event.
func (p *process) stop() {
	for {
		_ = p.cmd.Process.Signal(unix.SIGTERM) // an error means that it is gone
		select {
		case <-p.ended:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// dial connects to the daemon as soon as it listens. Paths of sockets must be short (unix(7)), so it uses the path of
// an open directory.
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
