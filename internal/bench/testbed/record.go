package testbed

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image/png"
	"path/filepath"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/build/packer"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/store"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// RecordTimeout is how long a boot that is recorded may take, with what comes after it. An emulated machine needs a
// minute or two, and a desktop six until its browser is there; beside other work on two processors it was not after
// ten.
const RecordTimeout = 20 * time.Minute

// recordBoots is how many boots are recorded: what a boot pack wants.
const recordBoots = 2

// recorded returns what boots of a version read. Where nobody knows, an emulated machine boots it, without a limit
// on its link, so that the pauses between the reads are those of the boot.
func (t *Testbed) recorded(ctx context.Context, m *Material) ([]packer.Recording, error) {
	boots, err := t.recordings(m.Version)
	if err != nil || len(boots) > 0 {
		return boots, err
	}
	beside, stop := context.WithCancel(ctx)
	defer stop()
	made := make(chan error, 1)
	go func() { made <- t.beside(beside, m) }()
	if err := t.record(ctx, m.Version); err != nil {
		stop()
		<-made // it has been broken off, or is made again when it is wanted
		return nil, fmt.Errorf("record a boot (or name a trace with --reads): %w", err)
	}
	if err := <-made; err != nil {
		return nil, err
	}
	return t.recordings(m.Version)
}

// record starts the server with DHCP of its own, boots, and leaves the server as it was.
func (t *Testbed) record(ctx context.Context, v fleet.Digest) error {
	t.Say("Boot:   no boot of version %s is recorded; an emulated machine boots it %d times", v.Short(), recordBoots)
	if err := t.Site.Close(); err != nil {
		return err
	}
	if err := t.Serve(ctx, "own"); err != nil {
		return err
	}
	if err := t.AdoptAll(ctx, testkit.KernelArgs()); err != nil {
		return err
	}
	for n := range recordBoots {
		if err := t.askFor(ctx); err != nil {
			return err
		}
		if err := t.recordOne(ctx, v, n+1); err != nil {
			return err
		}
	}
	if err := t.packed(ctx, v); err != nil {
		return err
	}
	if err := t.Site.Close(); err != nil {
		return err
	}
	return t.Serve(ctx, "off")
}

// packed waits until the server has made a boot pack of what was recorded. It takes a processor a minute or two,
// which no storm shall have to share, and changes W.
func (t *Testbed) packed(ctx context.Context, v fleet.Digest) error {
	dir, err := store.OpenDir(filepath.Join(t.DataDir(), "store"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		RecordTimeout,
		fmt.Errorf("the server made no boot pack within %s; its log is %s", RecordTimeout, t.Site.Config.Log),
	)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		records, err := dir.Packs(v)
		if err != nil {
			return err
		}
		kept, err := readKept(t.tracesOf(v))
		if err != nil || upToDate(records, kept) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// upToDate reports whether there is a boot pack, and none that the server makes next because a longer recording came
// after it.
func upToDate(records []bootpack.Record, kept []keptBoot) bool {
	return slices.ContainsFunc(records, func(r bootpack.Record) bool {
		return r.Class == "" &&
			!slices.ContainsFunc(kept, func(k keptBoot) bool { return k.Reached && k.Received.After(r.Made) })
	})
}

// AdoptAll lets any machine boot the image.
func (t *Testbed) AdoptAll(ctx context.Context, args []string) error {
	ref := fleet.Ref(t.Image)
	if _, err := t.Site.API.SetGroup(ctx, fleet.DefaultGroup,
		api.GroupSet{Image: &ref, KernelArgs: &args}); err != nil {
		return err
	}
	_, err := t.Site.API.SetPolicy(ctx, api.Policy{Adoption: fleet.Open, Naming: "pc[001-]"})
	return err
}

// recorderMAC is the address of the machine whose boots are recorded, recorder its name.
var recorderMAC = fleet.MAC{0x52, 0x54, 0, 0xde, 1, 1}

const recorder = "record"

// askFor has the next boot recorded until a mark of the image's, if that is what ends a boot here. Until `booted`
// each is, without being asked for.
func (t *Testbed) askFor(ctx context.Context) error {
	if t.Until == trace.Booted {
		return nil
	}
	name, err := t.recorderNode(ctx)
	if err != nil {
		return err
	}
	_, err = t.Site.API.SetRecording(ctx, name, api.RecordingSet{Until: string(t.Until)})
	return err
}

// recorderNode is what the server calls the machine whose boots are recorded. One that was recorded until `booted`
// before has a name that it was given then.
func (t *Testbed) recorderNode(ctx context.Context) (string, error) {
	nodes, err := t.Site.API.Nodes(ctx, "")
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		if slices.Contains(n.MACs, recorderMAC) {
			return n.Name, nil
		}
	}
	_, err = t.Site.API.CreateNode(ctx, api.NodeCreate{Name: recorder, MACs: []fleet.MAC{recorderMAC}})
	return recorder, err
}

// recorderMachine is the machine whose boots are recorded. It has what those have that are measured: a pack
// recorded without a graphics card lacks half of what a desktop reads with one, which then comes in chunks.
func (t *Testbed) recorderMachine() testkit.MachineConfig {
	c := testkit.MachineConfig{
		Name:     recorder,
		Firmware: testkit.BIOS,
		MAC:      recorderMAC,
		Memory:   t.Memory,
		Net:      t.Star.Server,
		Dir:      filepath.Join(t.Dir, "record"),
		Screen:   t.Screen,
	}
	if t.Until != trace.Booted { // there may be a desktop
		c.Screen, c.CPUs = true, 2
	}
	return c
}

// recordOne boots a machine until the server has so many traces.
func (t *Testbed) recordOne(ctx context.Context, v fleet.Digest, want int) (err error) {
	m, err := testkit.StartMachine(t.recorderMachine())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		RecordTimeout,
		fmt.Errorf("no trace of boot %d after %s", want, RecordTimeout),
	)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		boots, err := t.recordings(v)
		if err != nil {
			return err
		}
		if len(boots) >= want {
			return t.keepScreen(ctx, m)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; the machine's console ends with:\n%s", context.Cause(ctx), m.Console.Tail(12))
		}
	}
}

// screenName is what the screen showed when a boot had come to its mark, beside the results.
const screenName = "screen.png"

// keepScreen keeps what a machine shows, if it has a screen.
func (t *Testbed) keepScreen(ctx context.Context, m *testkit.Machine) error {
	if !m.Config.Screen {
		return nil
	}
	shot, err := m.Screenshot(ctx)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := png.Encode(&out, shot); err != nil {
		return err
	}
	return store.WriteFile(filepath.Join(t.Dir, screenName), out.Bytes(), 0o644)
}

// Serve starts the server. Where no machine boots it needs no TFTP, and this machine no boot loaders.
func (t *Testbed) Serve(ctx context.Context, dhcp string, more ...string) error {
	args := append([]string{"--http", ":" + DataPort}, more...)
	if dhcp == "off" {
		args = append(args, "--tftp", "off")
	}
	site, err := testkit.StartSite(
		ctx,
		testkit.SiteConfig{Net: t.Star.Server, Bin: cmp.Or(t.Programs, t.Bin), Data: t.DataDir(), DHCP: dhcp,
			Log: filepath.Join(t.Dir, "server.log"), Args: args},
	)
	if err == nil {
		t.Site = site
	}
	return err
}
