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

// DataPort is the port of the server's image port.
const DataPort = "8480"

// Testbed is a server, the network around it, and the image that its nodes boot.
type Testbed struct {
	bench.Place
	Programs string // directory of the programs for server and nodes; "": those beside this program

	Image  string          // name of the image
	Recipe string          // recipe that the image is built by
	Tree   string          // directory that the image is built from; "": Recipe
	Traces []string        // files with read traces; none: the server's traces
	Given  map[string]bool // flags on the command line

	Until  trace.Stage // stage that ends a boot
	Memory int         // memory of an emulated machine in MiB; 0: the default of testkit
	Screen bool        // the machine whose boots are recorded has a graphics card

	Star *testkit.Star
	Site *testkit.Site

	// Beside, if set, prepares other forms of the image while boots are recorded: an emulated machine leaves a
	// processor idle.
	Beside func(ctx context.Context, m *Material) error
}

// Open makes a network and starts a server without DHCP. The caller must call Close.
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

// Close stops the server and removes the network.
func (t *Testbed) Close() error {
	return errors.Join(bench.LeftOver(t.Site.Close()), bench.LeftOver(t.Star.Close()))
}

// Host is where the servers of other systems run.
func (t *Testbed) Host() bench.Host { return bench.Host{Net: t.Star.Server, Dir: t.Dir} }

// URL returns the URL of the server's image port for nodes.
func URL() string { return "http://" + bench.Network.Addr().String() + ":" + DataPort }

func (t *Testbed) beside(ctx context.Context, m *Material) error {
	if t.Beside == nil {
		return nil
	}
	return t.Beside(ctx, m)
}

// BootedEvent returns the event of a node's default target, with the node's own time since /init. It is empty if the
// node has not reached the target.
func BootedEvent(b api.BootDetail) trace.Event {
	for _, e := range b.Events {
		if e.Stage == trace.Booted && e.Offset > 0 {
			return e
		}
	}
	return trace.Event{}
}
