package sockopt

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// priority returns the priority of a connection's socket.
func priority(ctx context.Context, t *testing.T) (p int) {
	t.Helper()
	if !socket(ctx, func(fd int) { p, _ = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY) }) {
		t.Fatal("no socket")
	}
	return p
}

// connected returns the context of a request whose client reads all bytes.
func connected(t *testing.T) context.Context {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	there, err := net.DialTimeout("tcp", l.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	here, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); there.Close() })
	go io.Copy(io.Discard, there)
	return ConnContext(t.Context(), here)
}

// The oldest upload has priority. When it ends the next one has, and the end of another upload changes nothing.
func TestTheOldestUploadGoesFirst(t *testing.T) {
	var l Scheduler
	a, b, c := connected(t), connected(t), connected(t)
	leaveA, leaveB, leaveC := l.Upload(a, drainedBytes+1), l.Upload(b, 1<<20), l.Upload(c, 1<<20)
	want := func(when string, pa, pb, pc int) {
		t.Helper()
		if x, y, z := priority(a, t), priority(b, t), priority(c, t); x != pa || y != pb || z != pc {
			t.Errorf("%s: priorities %d, %d, %d, want %d, %d, %d", when, x, y, z, pa, pb, pc)
		}
	}
	want("all under way", First, Bulk, Bulk)
	leaveB()
	want("the second is over", First, Bulk, Bulk)
	leaveA()
	want("the first is over but for its end", First, Bulk, First)
	leaveB = l.Upload(b, 1<<20)
	l.Upload(a, 1<<20)()
	want("one more, and one that was broken off", Bulk, Bulk, First)
	l.Upload(a, drainedBytes)()
	want("a small one", First, Bulk, First)
	leaveC()
	want("the third is over", First, First, First)
	leaveB()
	l.Upload(t.Context(), 1<<20)() // a context without a connection
}

// While a machine loads its kernel, the load and the uploads share the link. Afterwards the oldest upload has priority
// again.
func TestKernelsAndUploadsShareTheLink(t *testing.T) {
	var l Scheduler
	a, b, k := connected(t), connected(t), connected(t)
	want := func(when string, pa, pb, pk int) {
		t.Helper()
		if x, y, z := priority(a, t), priority(b, t), priority(k, t); x != pa || y != pb || z != pk {
			t.Errorf("%s: priorities %d, %d, %d, want %d, %d, %d", when, x, y, z, pa, pb, pk)
		}
	}
	leaveA := l.Upload(a, 1<<20)
	first, second := l.UploadBulk(k), l.UploadBulk(k)
	want("one upload", Bulk, First, Bulk)
	leaveB := l.Upload(b, 1<<20)
	want("two", Bulk, Bulk, Bulk)
	first()
	want("the kernel is there, and the initramfs is on its way", Bulk, Bulk, Bulk)
	leaveA()
	second()
	want("no machine loads", Bulk, First, Bulk)
	leaveB()
	l.UploadBulk(t.Context())() // a context without a connection
}

// A response of UploadAhead goes before pieces until it ends; small responses that a boot waits for pass it.
func TestUploadAhead(t *testing.T) {
	var l Scheduler
	ahead, piece, small := connected(t), connected(t), connected(t)
	defer l.Upload(piece, 1<<20)()
	if got := priority(piece, t); got != First || l.Ahead() {
		t.Errorf("a piece alone has %d", got)
	}
	leave := l.UploadAhead(ahead)
	l.UploadSmall(small)
	if a, p, s := priority(ahead, t), priority(piece, t), priority(small, t); a != First || p != Bulk || s != Message ||
		!l.Ahead() {
		t.Errorf("ahead %d, piece %d, small %d", a, p, s)
	}
	leave()
	l.UploadSmall(small)
	if p, s := priority(piece, t), priority(small, t); p != First || s != First || l.Ahead() {
		t.Errorf("afterwards: piece %d, small %d", p, s)
	}
}
