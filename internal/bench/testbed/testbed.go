package testbed

import (
	"context"
	"errors"
	"os"

	"pando/internal/api"
	"pando/internal/bench"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// DataPort is where the server's image port listens.
const DataPort = "8480"

// Testbed is a server, the network around it, and the image that its nodes boot.
type Testbed struct {
	bench.Place
	Programs string // directory of the programs that serve and boot; "": those beside this one

	Image  string          // name of the image
	Recipe string          // that it is built by
	Tree   string          // directory that it is built from; "": the recipe
	Traces []string        // files with read traces; none: those that the server keeps
	Given  map[string]bool // flags

	Until  trace.Stage // that ends a boot
	Memory int         // MiB of an emulated machine; 0: what testkit gives it
	Screen bool        // the machine whose boots are recorded has a graphics card

	Star *testkit.Star
	Site *testkit.Site

	// Beside, if set, prepares other forms of the image while boots are recorded: an emulated machine leaves a
	// processor idle.
	Beside func(ctx context.Context, m *Material) error
}

// Open makes a network, which gets a server that gives no addresses. Close it.
func (t *Testbed) Open(ctx context.Context, c testkit.StarConfig) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("root is needed: the lab makes network namespaces")
	}
	if err := errors.Join(testkit.Sweep(c.Prefix), os.MkdirAll(t.Dir, 0o755)); err != nil {
		return err
	}
	c.Server = bench.Network
	if t.Star, err = testkit.NewStar(ctx, c); err != nil {
		return err
	}
	if err := t.Serve(ctx, "off"); err != nil {
		return errors.Join(err, bench.LeftOver(t.Star.Close()))
	}
	return nil
}

// Close ends the server and takes the network away.
func (t *Testbed) Close() error {
	return errors.Join(bench.LeftOver(t.Site.Close()), bench.LeftOver(t.Star.Close()))
}

// Host is where the servers of others run.
func (t *Testbed) Host() bench.Host { return bench.Host{Net: t.Star.Server, Dir: t.Dir} }

// URL is the server's image port, as nodes see it.
func URL() string { return "http://" + bench.Network.Addr().String() + ":" + DataPort }

func (t *Testbed) beside(ctx context.Context, m *Material) error {
	if t.Beside == nil {
		return nil
	}
	return t.Beside(ctx, m)
}

// BootedEvent returns the event of a node's default target, with its own time since /init; empty if it has not got
// there.
func BootedEvent(b api.BootDetail) trace.Event {
	for _, e := range b.Events {
		if e.Stage == trace.Booted && e.Offset > 0 {
			return e
		}
	}
	return trace.Event{}
}
