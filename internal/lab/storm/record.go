package storm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"path/filepath"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/bench"
	"pando/internal/build/packer"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/store"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// recordTimeout is how long a boot that is recorded may take, with what comes after it. An emulated machine needs a
// minute or two, and a desktop six until its browser is there; beside other work on two processors it was not after
// ten.
const recordTimeout = 20 * time.Minute

// recordBoots is how many boots are recorded: what a boot pack wants.
const recordBoots = 2

// recorded returns what boots of a version read. Where nobody knows, an emulated machine boots it, without a limit
// on its link, so that the pauses between the reads are those of the boot.
func (s *Storm) recorded(ctx context.Context, m *material) ([]packer.Recording, error) {
	boots, err := s.recordings(m.Version)
	if err != nil || len(boots) > 0 {
		return boots, err
	}
	beside, stop := context.WithCancel(ctx)
	defer stop()
	files := s.filesBeside(beside, m)
	if err := s.record(ctx, m.Version); err != nil {
		stop()
		_ = files() // it has been broken off, or is made again when it is wanted
		return nil, fmt.Errorf("record a boot (or name a trace with --reads): %w", err)
	}
	if err := files(); err != nil {
		return nil, err
	}
	return s.recordings(m.Version)
}

// filesBeside makes the squashfs, where a rival wants it: it takes all processors for a minute or two, and an
// emulated machine that is recorded leaves one of them. The returned function waits for it.
func (s *Storm) filesBeside(ctx context.Context, m *material) (wait func() error) {
	made := make(chan error, 1)
	if slices.ContainsFunc(
		s.wanted,
		func(name string) bool { return slices.Contains(s.system(name).Programs, bench.MakesSquashfs) },
	) {
		go func() {
			_, err := m.Squashfs(ctx)
			made <- err
		}()
	} else {
		made <- nil
	}
	return func() error { return <-made }
}

// record starts the server with DHCP of its own, boots, and leaves the server as it was.
func (s *Storm) record(ctx context.Context, v fleet.Digest) error {
	s.Say("Boot:   no boot of version %s is recorded; an emulated machine boots it %d times", v.Short(), recordBoots)
	if err := s.site.Close(); err != nil {
		return err
	}
	if err := s.serve(ctx, "own"); err != nil {
		return err
	}
	if err := s.welcome(ctx, testkit.KernelArgs()); err != nil {
		return err
	}
	for n := range recordBoots {
		if err := s.askFor(ctx); err != nil {
			return err
		}
		if err := s.recordOne(ctx, v, n+1); err != nil {
			return err
		}
	}
	if err := s.packed(ctx, v); err != nil {
		return err
	}
	if err := s.site.Close(); err != nil {
		return err
	}
	return s.serve(ctx, "off")
}

// packed waits until the server has made a boot pack of what was recorded. It takes a processor a minute or two,
// which no storm shall have to share, and changes W.
func (s *Storm) packed(ctx context.Context, v fleet.Digest) error {
	dir, err := store.OpenDir(filepath.Join(s.DataDir(), "store"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		recordTimeout,
		fmt.Errorf("the server made no boot pack within %s; its log is %s", recordTimeout, s.site.Config.Log),
	)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		records, err := dir.Packs(v)
		if err != nil {
			return err
		}
		kept, err := readKept(s.tracesOf(v))
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

// welcome lets any machine boot the image.
func (s *Storm) welcome(ctx context.Context, args []string) error {
	ref := fleet.Ref(s.image)
	if _, err := s.site.API.SetGroup(ctx, fleet.DefaultGroup,
		api.GroupSet{Image: &ref, KernelArgs: &args}); err != nil {
		return err
	}
	_, err := s.site.API.SetPolicy(ctx, api.Policy{Adoption: fleet.Open, Naming: "pc[001-]"})
	return err
}

// recorderMAC is the address of the machine whose boots are recorded, recorder its name.
var recorderMAC = fleet.MAC{0x52, 0x54, 0, 0xde, 1, 1}

const recorder = "record"

// askFor has the next boot recorded until a mark of the image's, if that is what ends a boot here. Until `booted`
// each is, without being asked for.
func (s *Storm) askFor(ctx context.Context) error {
	if s.until == trace.Booted {
		return nil
	}
	name, err := s.recorderNode(ctx)
	if err != nil {
		return err
	}
	_, err = s.site.API.SetRecording(ctx, name, api.RecordingSet{Until: string(s.until)})
	return err
}

// recorderNode is what the server calls the machine whose boots are recorded. One that was recorded until `booted`
// before has a name that it was given then.
func (s *Storm) recorderNode(ctx context.Context) (string, error) {
	nodes, err := s.site.API.Nodes(ctx, "")
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		if slices.Contains(n.MACs, recorderMAC) {
			return n.Name, nil
		}
	}
	_, err = s.site.API.CreateNode(ctx, api.NodeCreate{Name: recorder, MACs: []fleet.MAC{recorderMAC}})
	return recorder, err
}

// recorderMachine is the machine whose boots are recorded. It has what those have that are measured: a pack
// recorded without a graphics card lacks half of what a desktop reads with one, which then comes in chunks.
func (s *Storm) recorderMachine() testkit.MachineConfig {
	c := testkit.MachineConfig{
		Name:     recorder,
		Firmware: testkit.BIOS,
		MAC:      recorderMAC,
		Memory:   s.memory,
		Net:      s.star.Server,
		Dir:      filepath.Join(s.Dir, "record"),
		Screen:   s.screen,
	}
	if s.until != trace.Booted { // there may be a desktop
		c.Screen, c.CPUs = true, 2
	}
	return c
}

// recordOne boots a machine until the server has so many traces.
func (s *Storm) recordOne(ctx context.Context, v fleet.Digest, want int) (err error) {
	m, err := testkit.StartMachine(s.recorderMachine())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		recordTimeout,
		fmt.Errorf("no trace of boot %d after %s", want, recordTimeout),
	)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		boots, err := s.recordings(v)
		if err != nil {
			return err
		}
		if len(boots) >= want {
			return s.keepScreen(ctx, m)
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
func (s *Storm) keepScreen(ctx context.Context, m *testkit.Machine) error {
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
	return store.WriteFile(filepath.Join(s.Dir, screenName), out.Bytes(), 0o644)
}

// serve starts the server. Where no machine boots it needs no TFTP, and this machine no boot loaders.
func (s *Storm) serve(ctx context.Context, dhcp string, more ...string) error {
	args := append([]string{"--http", ":" + dataPort}, more...)
	if dhcp == "off" {
		args = append(args, "--tftp", "off")
	}
	site, err := testkit.StartSite(
		ctx,
		testkit.SiteConfig{Net: s.star.Server, Bin: s.programs(), Data: s.DataDir(), DHCP: dhcp,
			Log: filepath.Join(s.Dir, "server.log"), Args: args},
	)
	if err == nil {
		s.site = site
	}
	return err
}
