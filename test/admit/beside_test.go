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

	// besideWithin is how long objects may take while K fills the link for two minutes. They have at least a third
	// of it.
	besideWithin = 40 * time.Second
)

// A machine that has K gets the objects of its root while others load: K passes none of them. The second and third
// one once began behind the first, and stood still until all of K was sent.
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
	l.until(ended, func() bool { return y.bytes.Load() > before }) // nor did they stop it
	cancel()
	for range loading {
		<-ended
	}
}
