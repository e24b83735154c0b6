package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"pando/internal/api"
	"pando/internal/bench"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// The demo's network, and the time limit of a boot: five times what an emulated machine needs on a fast computer.
const (
	network     = "10.77.0.1/24"
	bootTimeout = 5 * time.Minute
	imageName   = "demo"
)

// computer is one of the demo's machines.
type computer struct {
	name           string // its name, or the name that it will get
	mac            fleet.MAC
	firmware       testkit.Firmware
	unknownMachine bool // the server does not know it before it boots
	what           string
}

var computers = []computer{
	{"pc001", fleet.MAC{0x52, 0x54, 0, 0xde, 0, 1}, testkit.BIOS, false, "BIOS, iPXE in its network card"},
	{"pc002", fleet.MAC{0x52, 0x54, 0, 0xde, 0, 2}, testkit.UEFI, false, "UEFI, its own PXE client"},
	{"pc003", fleet.MAC{0x52, 0x54, 0, 0xde, 0, 3}, testkit.BIOS, true, "BIOS, unknown to the server"},
}

// Demo is one demonstration.
type Demo struct {
	bench.Place
	recipe string
	keep   bool
	state  state
}

// New parses the arguments of `pando-lab demo` or `pando-lab stop`.
func New(command string, args []string, stdout, stderr io.Writer) (*Demo, error) {
	l := &Demo{Place: bench.Place{Out: stdout, Err: stderr}}
	f := flag.NewFlagSet("pando-lab "+command, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&l.Dir, "dir", "build/demo", "where everything is kept")
	if command == "demo" {
		f.BoolVar(&l.keep, "keep", false, "leave server and machines running")
		f.StringVar(&l.recipe, "recipe", "debian:bookworm", "image recipe")
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	err := l.Locate(f.Args())
	if err != nil {
		fmt.Fprintln(stderr, "pando-lab:", err)
	}
	return l, err
}

// Run runs the demonstration. It leaves nothing running, unless --keep was given and everything succeeded.
func (l *Demo) Run(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("root is needed: the demo makes a network namespace")
	}
	start := time.Now()
	if err := l.Stop(); err != nil {
		return fmt.Errorf("an earlier demo: %w", err)
	}
	if err := errors.Join(os.RemoveAll(l.runDir()), os.MkdirAll(l.runDir(), 0o755)); err != nil {
		return err
	}
	kept := false
	defer func() {
		if kept {
			return
		}
		if err != nil {
			l.Say("\nThe logs of this run are in %s", l.runDir())
		}
		if left := l.Stop(); left != nil {
			err = errors.Join(err, bench.LeftOver(left))
		}
	}()
	p, err := l.prepare(ctx)
	if err != nil {
		return err
	}
	if err := l.bootAll(ctx, p); err != nil {
		return err
	}
	if err := l.report(ctx, p); err != nil {
		return err
	}
	l.Say(
		"\nThree machines without disks run version %s; all of it took %s.",
		p.version.Short(),
		time.Since(start).Round(time.Second),
	)
	if l.keep {
		kept = true
		l.lookIn(ctx, p)
	}
	l.sayNext()
	return nil
}

func (l *Demo) runDir() string { return filepath.Join(l.Dir, "run") }

// play has the parts of a running demo.
type play struct {
	net     *testkit.Net
	site    *testkit.Site
	login   login
	version fleet.Digest
}

// prepare creates network, server, image and settings.
func (l *Demo) prepare(ctx context.Context) (*play, error) {
	p := &play{}
	var err error
	if p.net, err = testkit.NewNet("pando", netip.MustParsePrefix(network)); err != nil {
		return nil, err
	}
	l.state = state{Net: p.net.Name, Addr: p.net.Addr}
	if err := l.save(); err != nil {
		return nil, errors.Join(err, p.net.Close())
	}
	l.Say("Server: `pando serve` with its defaults and its own DHCP, in network namespace %s", p.net.Name)
	p.site, err = testkit.StartSite(ctx, testkit.SiteConfig{
		Net: p.net, Bin: l.Bin, Data: l.DataDir(), Log: filepath.Join(l.runDir(), "server.log"), DHCP: "own"})
	if err != nil {
		return nil, err
	}
	if err := l.started(p.site.PID(), l.DataDir()); err != nil {
		return nil, err
	}
	if p.version, err = l.image(ctx, p.site.API); err != nil {
		return nil, err
	}
	if p.login, err = newLogin(l.Dir); err != nil {
		return nil, err
	}
	return p, l.settle(ctx, p)
}

// settle deletes the nodes of an earlier run, declares two nodes, and sets the policy so that the third machine is
// adopted when it appears.
func (l *Demo) settle(ctx context.Context, p *play) error {
	nodes, err := p.site.API.Nodes(ctx, "")
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if _, err := p.site.API.DeleteNodes(ctx, n.Name, false); err != nil {
			return err
		}
	}
	ref := fleet.Ref(imageName)
	keys, args := []string{p.login.authorized}, testkit.KernelArgs()
	if _, err := p.site.API.SetGroup(ctx, fleet.DefaultGroup,
		api.GroupSet{Image: &ref, KernelArgs: &args, Settings: fleet.Settings{AuthorizedKeys: &keys}}); err != nil {
		return err
	}
	for _, c := range computers {
		if c.unknownMachine {
			continue
		}
		if _, err := p.site.API.CreateNode(ctx, api.NodeCreate{Name: c.name, MACs: []fleet.MAC{c.mac}}); err != nil {
			return err
		}
	}
	_, err = p.site.API.SetPolicy(ctx, api.Policy{Adoption: fleet.Open, Naming: "pc[001-]"})
	return err
}

// bootAll switches on the machines, as many at a time as there are processors, and shows them until all are up.
func (l *Demo) bootAll(ctx context.Context, p *play) error {
	l.Say("")
	for _, c := range computers {
		l.Say(
			"%s  %s  %-30s %s",
			c.name,
			c.mac,
			c.what,
			map[bool]string{true: "adopted when it appears", false: "announced"}[c.unknownMachine],
		)
	}
	l.Say("")
	stopWatch := l.watch(p)
	defer stopWatch()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(computers))
	room := atATime()
	for _, c := range computers {
		if room == 0 {
			if err := <-ended; err != nil {
				return err
			}
			room++
		}
		if err := l.powerOn(ctx, p, c, ended); err != nil {
			return err
		}
		room--
	}
	for room < atATime() {
		if err := <-ended; err != nil {
			return err
		}
		room++
	}
	<-time.After(lastLook)
	return nil
}

// lastLook is how long the live view remains after the last machine is up, so that people can see that state.
const lastLook = 1500 * time.Millisecond

// atATime returns how many machines boot at a time: one for each processor.
func atATime() int { return max(1, min(len(computers), runtime.NumCPU())) }

// powerOn starts a machine. It sends nil to ended when the machine is up.
func (l *Demo) powerOn(ctx context.Context, p *play, c computer, ended chan<- error) error {
	m, err := testkit.StartMachine(testkit.MachineConfig{
		Name: c.name, Firmware: c.firmware, MAC: c.mac, Net: p.net, Dir: l.runDir()})
	if err != nil {
		return err
	}
	if err := l.started(m.PID(), c.mac.String()); err != nil {
		return err
	}
	go func() {
		ctx, cancel := context.WithTimeoutCause(ctx, bootTimeout, fmt.Errorf("not up after %s", bootTimeout))
		defer cancel()
		_, err := p.site.WaitNode(ctx, c.name, bench.Up)
		if err != nil {
			err = fmt.Errorf("%w\nits console ends with:\n%s", err, m.Console.Tail(12))
		}
		ended <- err
	}()
	return nil
}
