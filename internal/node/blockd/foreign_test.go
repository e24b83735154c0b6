package blockd

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pando/internal/blockapi"
	"pando/internal/nbd"
)

// A foreign client copies an image through the whole stack, HTTP to NBD, while the server sends flipped and
// truncated objects in between: what comes out is the image, and what was wrong is reported.
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
	// the index, which would take all the bad answers
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
		served <- (&nbd.Server{Exports: []nbd.Export{{Name: "root", Device: metered}}}).Serve(ctx, listener)
	}()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	if out, err := exec.CommandContext(t.Context(), "nbdcopy", "nbd+unix:///root?socket="+socket, copied).CombinedOutput(); err != nil {
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
