package admit

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"pando/internal/testkit"
)

const (
	objects    = 3
	objectSize = 150_000 // a piece

	// besideWithin bounds the time of objects while K uses the link for two minutes. Objects get at least a third of
	// the link.
	besideWithin = 40 * time.Second
)

// A machine that has K gets the objects of its root while others load K, because K is not sent before objects. Later
// objects must not wait behind the first until all of K is sent.
func TestKAndObjectsShareTheLink(t *testing.T) {
	const loading = 6
	l := newLoaders(t, loading+1, 12<<20, 5*testkit.Mbit, 1250*testkit.Kbit)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var y tally
	ended := l.begin(ctx, loading, &y)
	f := testkit.NewLoader(
		l.star.Nodes[loading],
		l.macs[loading],
		fmt.Sprintf("http://%s:8480", subnet.Addr()),
		"amd64",
	)
	began, came := time.Now(), make(chan error, objects)
	enough, done := context.WithTimeout(ctx, besideWithin)
	defer done()
	for _, id := range l.objects {
		go func() {
			_, err := f.Fetch(enough, f.Server+"/o/"+id.Name(), io.Discard)
			came <- err
		}()
	}
	for range objects {
		if err := <-came; err != nil {
			t.Errorf("an object beside K, after %v: %v", time.Since(began), err)
		}
	}
	before, kernels := y.bytes.Load(), y.kernels.Load()
	t.Logf("%d objects came in %v, and %d machines had their kernel by then", objects, time.Since(began), kernels)
	if kernels == loading {
		t.Error("there was no K beside them at the end")
	}
	l.until(ended, func() bool { return y.bytes.Load() > before }) // the objects did not stop K either
	cancel()
	for range loading {
		<-ended
	}
}
