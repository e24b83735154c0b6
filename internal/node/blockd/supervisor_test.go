package blockd

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/chunk"
)

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// testOrigin serves an image of random blocks. Tests can make it fail.
type testOrigin struct {
	raw     []byte
	index   chunk.ID
	pack    []byte // map of a boot pack, for the daemons' configuration
	url     string
	objects map[string][]byte
	down    atomic.Bool  // answers 503
	flip    atomic.Int32 // this many answers get a flipped bit or are truncated
}

func newTestOrigin(t *testing.T, blocks int) *testOrigin {
	t.Helper()
	o := &testOrigin{raw: make([]byte, blocks*chunk.BlockSize), objects: map[string][]byte{}}
	rand.NewChaCha8([32]byte{5}).Read(o.raw)
	o.publish(t)
	s := httptest.NewServer(o)
	t.Cleanup(s.Close)
	o.url = s.URL
	return o
}

// publish makes chunks and an index of the current root.
func (o *testOrigin) publish(t *testing.T) {
	t.Helper()
	var entries []chunk.Entry
	for off := 0; off < len(o.raw); off += chunk.BlockSize {
		entries = append(entries, chunk.Entry{RawSize: chunk.BlockSize, StoredSize: chunk.BlockSize,
			Codec: chunk.Stored, ID: o.put(o.raw[off:][:chunk.BlockSize])})
	}
	page, err := chunk.NewPage(entries)
	if err != nil {
		t.Fatal(err)
	}
	stored := page.Encode()
	root, err := chunk.NewRoot([]chunk.PageRef{{RawSize: page.RawSize(), Entries: len(entries), StoredSize: len(stored),
		Codec: chunk.Stored, ID: o.put(stored)}}, chunk.BlockSize)
	if err != nil {
		t.Fatal(err)
	}
	o.index = o.put(root.Encode())
}

func (o *testOrigin) put(b []byte) chunk.ID {
	id := chunk.Sum(b)
	o.objects["/o/"+id.Name()] = b
	return id
}

func (o *testOrigin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, ok := o.objects[r.URL.Path]
	switch {
	case o.down.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case !ok:
		http.NotFound(w, r)
		return
	case o.flip.Add(-1) >= 0:
		b = bytes.Clone(b)
		if b[len(b)/2] ^= 1; o.flip.Load()%2 == 0 {
			b = b[:len(b)/2] // every other one is truncated
		}
	}
	w.Write(b)
}

// fakeKernel is the kernel's NBD client: it has one socket, which Reconnect replaces, and sends reads that were in
// flight again on the next socket.
type fakeKernel struct {
	mu    sync.Mutex
	conns chan net.Conn
	conn  net.Conn
}

func newFakeKernel() *fakeKernel { return &fakeKernel{conns: make(chan net.Conn, 1)} }

func (k *fakeKernel) Connect(sock *os.File) error {
	c, err := net.FileConn(sock)
	if err == nil {
		k.conns <- c
	}
	return err
}

func (k *fakeKernel) Reconnect(sock *os.File) error { return k.Connect(sock) }

// read returns n bytes at off, with as many daemons as it takes. An error is an answer of the device.
func (k *fakeKernel) read(off int64, n int) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		if k.conn == nil {
			k.conn = <-k.conns
		}
		b, err := k.try(off, n)
		if err != io.EOF {
			return b, err
		}
		k.conn.Close()
		k.conn = nil
	}
}

func (k *fakeKernel) try(off int64, n int) ([]byte, error) {
	req := binary.BigEndian.AppendUint32(nil, 0x25609513)
	req = binary.BigEndian.AppendUint32(req, 0)
	req = binary.BigEndian.AppendUint64(req, uint64(off))
	req = binary.BigEndian.AppendUint64(req, uint64(off))
	req = binary.BigEndian.AppendUint32(req, uint32(n))
	if _, err := k.conn.Write(req); err != nil {
		return nil, io.EOF
	}
	head, data := make([]byte, 16), make([]byte, n)
	if _, err := io.ReadFull(k.conn, head); err != nil {
		return nil, io.EOF
	}
	if e := binary.BigEndian.Uint32(head[4:]); e != 0 {
		return nil, fmt.Errorf("I/O error %d", e)
	}
	if _, err := io.ReadFull(k.conn, data); err != nil {
		return nil, io.EOF
	}
	return data, nil
}

// hangUp closes the socket of the last daemon.
func (k *fakeKernel) hangUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.conn != nil || len(k.conns) > 0 {
		if k.conn == nil {
			k.conn = <-k.conns
		}
		k.conn.Close()
		k.conn = nil
	}
}

// startSupervisor runs a supervisor in this process. Its block daemons are this test binary.
func startSupervisor(t *testing.T, o *testOrigin) (k *fakeKernel, c blockapi.Client, ready string) {
	t.Helper()
	k, c, ready, stop := supervise(t, o, blockapi.Config{ChunkSize: chunk.BlockSize, Cache: 1})
	t.Cleanup(stop)
	return k, c, ready
}

// supervise is startSupervisor with more parameters.
func supervise(
	t testing.TB,
	o *testOrigin,
	cfg blockapi.Config,
) (k *fakeKernel, c blockapi.Client, ready string, stop func()) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k = newFakeKernel()
	cfg.Index, cfg.Size, cfg.Servers, cfg.Pack = o.index, int64(len(o.raw)), []string{o.url}, o.pack
	s := &supervisor{binary: self, log: quietLog(), kernel: k, cfg: cfg}
	if s.ledger, s.memory, err = newLedger(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.ready = w
	stopped := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { stopped <- s.run(ctx) }()
	line, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	c = blockapi.Client{Socket: filepath.Join(dir, blockapi.Socket)}
	return k, c, strings.TrimSpace(string(line)), func() {
		cancel()
		k.hangUp() // the daemon takes it for a disconnect: daemon and supervisor end
		<-stopped
		s.memory.Close()
	}
}

func TestSupervisorReplacesAKilledDaemon(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("locking memory without a limit needs root")
	}
	o := newTestOrigin(t, 400)
	k, c, ready := startSupervisor(t, o)
	if ready != "ready" {
		t.Fatalf("supervisor says %q", ready)
	}
	pids := map[int]bool{}
	for i := range 400 {
		if i == 300 {
			o.flip.Store(3)
		}
		got, err := k.read(int64(i)*4096, 4096)
		if err != nil || !bytes.Equal(got, o.raw[i*4096:][:4096]) {
			t.Fatalf("block %d after %d kills: wrong bytes or %v", i, len(pids), err)
		}
		if i%80 != 79 {
			continue
		}
		st, err := c.Status(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		pids[st.PID] = true
		if err := unix.Kill(st.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.read(0, 4096); err != nil {
		t.Fatal(err)
	}
	st, err := c.Status(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) != 5 || st.Restarts != 5 || st.Reads < 401 || st.Errors != 0 || st.Rejected != 3 {
		t.Errorf("%d daemons; status %+v", len(pids), st)
	}
	kinds := map[blockapi.IncidentKind]int{}
	for _, i := range st.Incidents {
		kinds[i.Kind]++
	}
	if kinds[blockapi.Reattached] != 5 || kinds[blockapi.WrongBytes] < 1 {
		t.Errorf("incidents %v, want 5 of a new daemon and at least one of wrong bytes", kinds)
	}
}

// The block daemon has no file of a file system open, so it cannot wait for the root that it serves.
func TestBlockDaemonKeepsNoFilesOpen(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("locking memory without a limit needs root")
	}
	o := newTestOrigin(t, 20)
	k, c, _ := startSupervisor(t, o)
	if _, err := k.read(0, 65536); err != nil {
		t.Fatal(err)
	}
	st, err := c.Status(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	proc := fmt.Sprintf("/proc/%d", st.PID)
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(proc + "/fd/" + fd.Name())
		// At its start Go's runtime reads the cgroup's limits, which a node's chroot hides. Descriptors that this
		// test process inherited are passed on; on a node init has none.
		inherited, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		known := strings.HasPrefix(to, "/memfd:") || strings.HasPrefix(to, "/sys/fs/cgroup/") || to == inherited
		if strings.HasPrefix(to, "/") && !known {
			t.Errorf("descriptor %s is %s", fd.Name(), to)
		}
	}
	limits, err := os.ReadFile(proc + "/status")
	if err != nil || !strings.Contains(string(limits), "VmLck:") ||
		strings.Contains(string(limits), "VmLck:\t       0 kB") {
		t.Errorf("memory is not locked (%v)", err)
	}
}

// Reads wait while the server is down, even if the daemon dies meanwhile, and are answered later.
func TestSupervisorOutage(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("locking memory without a limit needs root")
	}
	o := newTestOrigin(t, 100)
	k, c, _ := startSupervisor(t, o)
	o.down.Store(true)
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		b, err := k.read(4096, 4096)
		done <- result{b, err}
	}()
	wait := func(what string, ok func(blockapi.Status) bool) blockapi.Status {
		t.Helper()
		for range 500 {
			if st, err := c.Status(t.Context(), 0); err == nil && ok(st) {
				return st
			}
			<-time.After(20 * time.Millisecond)
		}
		t.Fatalf("%s: not within 10 s", what)
		return blockapi.Status{}
	}
	st := wait("attempts fail", func(s blockapi.Status) bool { return s.Failures >= 3 })
	if err := unix.Kill(st.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait("another daemon", func(s blockapi.Status) bool { return s.PID != st.PID && s.Failures > st.Failures })
	select {
	case r := <-done:
		t.Fatalf("the read ended in the outage: %v", r.err)
	default:
	}
	o.down.Store(false)
	if r := <-done; r.err != nil || !bytes.Equal(r.b, o.raw[4096:8192]) {
		t.Errorf("after the outage: wrong bytes or %v", r.err)
	}
	wait("incidents", func(s blockapi.Status) bool {
		return len(s.Incidents) >= 2 && s.Incidents[0].Kind == blockapi.ServerDown &&
			s.Incidents[1].Kind == blockapi.Reattached &&
			s.Errors == 0
	})
}

// An unreadable image ends the start with the reason.
func TestSupervisorGivesUpOnABrokenImage(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("locking memory without a limit needs root")
	}
	o := newTestOrigin(t, 10)
	o.index = o.put([]byte("not an index"))
	if _, _, ready := startSupervisor(t, o); !strings.Contains(ready, "broken") {
		t.Errorf("supervisor says %q, want that the image is broken", ready)
	}
}
