package nbd

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTransmissionRefusals(t *testing.T) {
	c := dial(t, listen(t, oneExport(8192)))
	c.enter("root")
	check := func(name string, want Errno) {
		t.Helper()
		if h, e := c.reply(); h != 42 || e != want {
			t.Errorf("%s: handle %d, error %d, want 42, %d", name, h, e, want)
		}
	}
	c.request(cmdRead, 42, 8192, 1)
	check("read at the end", EINVAL)
	c.request(cmdRead, 42, 4096, 4097)
	check("read over the end", EINVAL)
	c.request(cmdRead, 42, 1<<64-1, 2)
	check("read that wraps", EINVAL)
	c.request(cmdRead, 42, 0, 0)
	check("empty read", EINVAL)
	c.request(cmdRead, 42, 0, MaxRequest+1)
	check("giant read", EOVERFLOW)
	c.send(uint32(magicRequest), uint16(1<<2), uint16(cmdRead), uint64(42), uint64(0), uint32(512))
	check("read with an unknown flag", EINVAL)
	c.request(cmdWrite, 42, 0, 5)
	c.send("hello")
	check("write", EPERM)
	c.request(cmdTrim, 42, 0, 4096)
	check("trim", EPERM)
	c.request(cmdWriteZeroes, 42, 0, 4096)
	check("write zeroes", EPERM)
	c.request(cmdFlush, 42, 0, 0)
	check("flush", 0)
	c.request(99, 42, 0, 0)
	check("unknown command", EINVAL)
	c.request(cmdRead, 42, 0, 8192)
	check("read", 0)
	if got := c.recv(8192); !bytes.Equal(got, randomBytes(8192)) {
		t.Error("read brought other bytes")
	}
	c.request(cmdDisconnect, 0, 0, 0)
	c.closed()
}

func TestTransmissionCutOff(t *testing.T) {
	path := listen(t, oneExport(8192))
	for name, talk := range map[string]func(c client){
		"wrong magic":     func(c client) { c.send(make([]byte, requestSize)) },
		"endless write":   func(c client) { c.request(cmdWrite, 1, 0, MaxRequest+1) },
		"half a request":  func(c client) { c.send("\x25\x60\x95\x13"); c.Conn.(*net.UnixConn).CloseWrite() },
		"half a payload":  func(c client) { c.request(cmdWrite, 1, 0, 9); c.Conn.(*net.UnixConn).CloseWrite() },
		"nothing at all":  func(c client) { c.Conn.(*net.UnixConn).CloseWrite() },
		"second exchange": func(c client) { c.send(uint64(magicOption), uint32(optList), uint32(0), make([]byte, 12)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, path)
			c.t = t
			c.enter("root")
			talk(c)
			c.closed()
		})
	}
}

// Answers are sent when they are ready: here the first read waits until the second was answered.
func TestAnswersOutOfOrder(t *testing.T) {
	second := make(chan struct{})
	dev := &memory{data: randomBytes(8192), before: func(ctx context.Context, off int64) error {
		if off != 0 {
			return nil
		}
		select {
		case <-second:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	c := dial(t, listen(t, &exportServer{Exports: []Export{{Device: dev}}}))
	c.enter("")
	c.request(cmdRead, 1, 0, 4096)
	c.request(cmdRead, 2, 4096, 4096)
	if h, e := c.reply(); h != 2 || e != 0 {
		t.Fatalf("first answer: handle %d, error %d, want 2, 0", h, e)
	}
	c.recv(4096)
	close(second)
	if h, e := c.reply(); h != 1 || e != 0 {
		t.Fatalf("second answer: handle %d, error %d, want 1, 0", h, e)
	}
	c.recv(4096)
}

// quick is a device that answers all but its first page at once.
type quick struct{ memory }

func (q *quick) ReadNow(p []byte, off int64) bool {
	if off == 0 {
		return false
	}
	copy(p, q.data[off:])
	return true
}

// A read that needs no waiting is answered at once, even while another one waits.
func TestPromptAnswers(t *testing.T) {
	dev := &quick{memory{data: randomBytes(8192), before: func(ctx context.Context, off int64) error {
		if off != 0 {
			return errors.New("asked for what it has")
		}
		<-ctx.Done()
		return ctx.Err()
	}}}
	c := dial(t, listen(t, &exportServer{Exports: []Export{{Device: dev}}, Server: Server{Requests: 1}}))
	c.enter("")
	c.request(cmdRead, 1, 0, 4096)
	for h := range uint64(3) {
		c.request(cmdRead, 2+h, 4096, 4096)
		if got, e := c.reply(); got != 2+h || e != 0 || !bytes.Equal(c.recv(4096), dev.data[4096:]) {
			t.Fatalf("handle %d, error %d, want %d, 0, or other bytes", got, e, 2+h)
		}
	}
}

func TestDeviceErrors(t *testing.T) {
	dev := &memory{data: make([]byte, 8192), before: func(_ context.Context, off int64) error {
		if off == 0 {
			return errors.New("no idea")
		}
		return ESHUTDOWN
	}}
	c := dial(t, listen(t, &exportServer{Exports: []Export{{Device: dev}}}))
	c.enter("")
	c.request(cmdRead, 1, 0, 4096)
	if _, e := c.reply(); e != EIO {
		t.Errorf("error %d, want EIO", e)
	}
	c.request(cmdRead, 1, 4096, 4096)
	if _, e := c.reply(); e != ESHUTDOWN {
		t.Errorf("error %d, want ESHUTDOWN", e)
	}
}

// The number of concurrent reads of a client is bounded, and all its requests are answered.
func TestReadsAreBounded(t *testing.T) {
	var running, most atomic.Int32
	release := make(chan struct{})
	full := sync.OnceFunc(func() { close(release) })
	dev := &memory{data: randomBytes(1 << 20), before: func(ctx context.Context, off int64) error {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m; m = most.Load() {
			if most.CompareAndSwap(m, n) {
				break
			}
		}
		if n == 4 {
			full() // the bound is reached: no read waits from here on
		}
		<-release
		return nil
	}}
	c := dial(t, listen(t, &exportServer{Exports: []Export{{Device: dev}}, Server: Server{Requests: 4}}))
	c.enter("")
	go func() {
		for i := range 64 {
			c.Write(encode(uint32(magicRequest), uint16(0), uint16(cmdRead), uint64(i), uint64(i)*4096, uint32(4096)))
		}
	}()
	seen := map[uint64]bool{}
	for range 64 {
		h, e := c.reply()
		if e != 0 || seen[h] {
			t.Fatalf("handle %d: error %d, seen before: %v", h, e, seen[h])
		}
		seen[h] = true
		if got := c.recv(4096); !bytes.Equal(got, dev.data[h*4096:][:4096]) {
			t.Fatalf("handle %d brought other bytes", h)
		}
	}
	if most.Load() > 4 {
		t.Errorf("%d reads ran at a time, want at most 4", most.Load())
	}
}

// One read may be larger than the buffer budget. It then runs alone, and others continue after it.
func TestReadLargerThanBudget(t *testing.T) {
	dev := &memory{data: randomBytes(1 << 20)}
	c := dial(t, listen(t, &exportServer{Exports: []Export{{Device: dev}}, Server: Server{Buffer: 8192}}))
	c.enter("")
	for i := range uint64(3) {
		c.request(cmdRead, i, 0, 1<<20)
	}
	for range 3 {
		if _, e := c.reply(); e != 0 {
			t.Fatalf("error %d", e)
		}
		if !bytes.Equal(c.recv(1<<20), dev.data) {
			t.Fatal("read brought other bytes")
		}
	}
}

// The transmission alone works on one end of a socket pair, as ServeKernel uses it.
func TestServeKernel(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn := func(fd int) net.Conn {
		f := os.NewFile(uintptr(fd), "socket pair")
		defer f.Close()
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	dev := &memory{data: randomBytes(65536)}
	done := make(chan error, 1)
	ours, kernels := conn(fds[0]), conn(fds[1])
	defer kernels.Close()
	go func() { done <- (&Server{}).ServeKernel(t.Context(), ours, dev) }()
	c := client{t, kernels}
	c.request(cmdRead, 9, 4096, 8192)
	if h, e := c.reply(); h != 9 || e != 0 || !bytes.Equal(c.recv(8192), dev.data[4096:][:8192]) {
		t.Fatalf("handle %d, error %d", h, e)
	}
	c.request(cmdDisconnect, 0, 0, 0)
	if err := <-done; err != nil {
		t.Errorf("ServeKernel: %v", err)
	}
}
