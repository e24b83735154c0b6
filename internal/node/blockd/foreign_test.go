package blockd

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"pando/internal/blockapi"
	"pando/internal/nbd"
)

// A foreign NBD client copies an image through the whole stack while the server sends flipped and truncated objects.
// The copy equals the image, and wrong objects are reported.
func TestForeignCopyOverBadObjects(t *testing.T) {
	if _, err := exec.LookPath("nbdcopy"); err != nil {
		t.Skip("nbdcopy is not installed (apt install libnbd-bin)")
	}
	o := newTestOrigin(t, 300)
	l := testLedger(t)
	d := &blockDaemon{log: quietLog(), ledger: l, watch: newSourceWatch(l), stall: newStall(l),
		cfg: blockapi.Config{Index: o.index, Size: int64(len(o.raw)), Servers: []string{o.url}}}
	dev, err := d.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	// Read the index first: it would get all the bad answers.
	if err := dev.ReadAt(t.Context(), make([]byte, 1), 0); err != nil {
		t.Fatal(err)
	}
	o.flip.Store(40)
	dir := t.TempDir()
	socket, copied := filepath.Join(dir, "nbd.sock"), filepath.Join(dir, "copy")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	metered := &meteredDevice{
		reader: dev,
		ledger: l,
		stall:  d.stall,
		reads:  newReadRecorder(false),
		broken: d.watch.broken,
	}
	go func() {
		served <- serveExport(ctx, listener, metered)
	}()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	if out, err := exec.CommandContext(t.Context(), "nbdcopy", "nbd+unix:///root?socket="+socket,
		copied).CombinedOutput(); err != nil {
		t.Fatalf("nbdcopy: %v\n%s", err, out)
	}
	got, err := os.ReadFile(copied)
	if err != nil || !bytes.Equal(got, o.raw) {
		t.Errorf("the copy of %d bytes differs (%v)", len(got), err)
	}
	st := l.status(0)
	if st.Rejected != 40 || st.Errors != 0 || len(st.Incidents) == 0 || st.Incidents[0].Kind != blockapi.WrongBytes ||
		st.Incidents[0].Source != o.url || len(st.Incidents[0].Object) != 64 {
		t.Errorf("status %+v, want 40 rejected and reported with source and object", st)
	}
}

// serveExport serves clients that begin with a handshake, until ctx ends. It knows only the option EXPORT_NAME, which
// clients fall back to, and serves one export under any name.
func serveExport(ctx context.Context, l net.Listener, dev nbd.Device) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		conns.Go(func() {
			defer c.Close()
			if handshake(c, dev.Size()) == nil {
				_ = (&nbd.Server{}).ServeKernel(ctx, c, dev)
			}
		})
	}
}

// handshake is the server's side of the fixed newstyle negotiation.
func handshake(c net.Conn, size int64) error {
	const exportName, readOnly = 1, 3
	if _, err := c.Write([]byte("NBDMAGICIHAVEOPT\x00\x03")); err != nil { // fixed newstyle, no zeroes
		return err
	}
	if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
		return err
	}
	for {
		head := make([]byte, 16)
		if _, err := io.ReadFull(c, head); err != nil {
			return err
		}
		option, length := binary.BigEndian.Uint32(head[8:]), binary.BigEndian.Uint32(head[12:])
		if _, err := io.CopyN(io.Discard, c, int64(length)); err != nil {
			return err
		}
		var b []byte
		if option == exportName {
			b = binary.BigEndian.AppendUint64(b, uint64(size))
			_, err := c.Write(binary.BigEndian.AppendUint16(b, readOnly))
			return err
		}
		b = binary.BigEndian.AppendUint64(b, 0x0003e889045565a9)
		b = binary.BigEndian.AppendUint32(b, option)
		b = binary.BigEndian.AppendUint32(b, 1<<31+1) // NBD_REP_ERR_UNSUP
		if _, err := c.Write(binary.BigEndian.AppendUint32(b, 0)); err != nil {
			return err
		}
	}
}
