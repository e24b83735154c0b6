package initrd

import (
	"context"

	"pando/internal/api"
	"pando/internal/bootfiles"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/lastboot"
	"pando/internal/link"
	"pando/internal/trace"
)

// Modules is the result of loading drivers.
type Modules struct {
	Names  []string // names of the loaded modules
	Failed error    // why drivers of devices could not be loaded
}

// Link is the result of waiting for a link.
type Link struct {
	Adapters []link.NIC // adapters with a driver
	Up       []link.NIC // those that have a link
}

// Session is the result of registration.
type Session struct {
	Assignment fleet.Assignment
	Answer     api.RegisterResponse // as the server signed it; empty without a server
	Offline    *lastboot.Boot       // the boot to repeat without a server; nil: a server answered
}

// Verified is a version whose signature was verified.
type Verified struct {
	Manifest  image.Manifest
	Bytes     []byte // the manifest as it was signed
	Signature []byte
	Pack      []byte             // the boot pack's map, verified; nil: none
	Sources   []bootfiles.Source // sources of manifest and map; the first had the manifest
}

// Root is a mounted root with its write layer.
type Root struct {
	Writes string // the kind of write layer
}

// results has the results of the phases so far. Only the lists of phases see it: a phase is called with the results
// that it needs.
type results struct {
	modules  Modules
	link     Link
	lease    link.Lease
	session  *Session
	verified *Verified
	root     Root
	init     string // path of the image's init
}

// keep returns a function that stores a phase's result in to if the phase succeeded.
func keep[T any](to *T) func(T, string, error) (string, error) {
	return func(result T, text string, err error) (string, error) {
		if err == nil {
			*to = result
		}
		return text, err
	}
}

// phases returns the phases of a boot, in order. They read and write p.
func (m *machine) phases(p *results) []Phase {
	return []Phase{
		{Stage: trace.Modules, Run: func(ctx context.Context) (string, error) {
			return keep(&p.modules)(m.drivers.loadModules(ctx))
		}, Hint: "is the kernel's modules package in the image? build it again"},
		{Stage: trace.Link, Run: func(ctx context.Context) (string, error) {
			return keep(&p.link)(m.network.waitLink(ctx, p.modules.Failed))
		}, Back: trace.Modules,
			Hint: "check cable, switch port and VLAN; `pando doctor` names adapters without a driver"},
		{Stage: trace.Address, Run: func(ctx context.Context) (string, error) {
			return keep(&p.lease)(m.network.getAddress(ctx, p.link))
		}, Back: trace.Link,
			Hint: "is a DHCP server on this network? run `pando doctor` on the server"},
		{Stage: trace.Register, Run: m.register(p), Back: trace.Address,
			Hint: "is `pando serve` running, and is its port 8443 open in the firewall?"},
		{Stage: trace.Manifest, Run: m.manifest(p), Back: trace.Address,
			Hint: "is `pando serve` running, and is its port 8480 open in the firewall?"},
		{Stage: trace.Device, Run: m.device(p),
			Hint: "is `pando serve` running? `pando image list` shows whether the version is whole"},
		{Stage: trace.Root, Run: m.root(p),
			Hint: "reads of the root wait for a server: is `pando serve` running?"},
		{Stage: trace.Config, Run: m.configure(p),
			Hint: "is the writable memory of the node large enough (write limit of its group)?"},
		{Stage: trace.SwitchRoot, Run: func(context.Context) (string, error) {
			return keep(&p.init)(prepareSwitch(m.rootMount.at.root, m.drivers.cmd.Init, p.session, m.timeline.console))
		}, Hint: "does the image have systemd (/sbin/init)?"},
	}
}

// softPhases returns the phases of a soft reboot, which keeps kernel and network. staged is the version whose device
// is attached already.
func (m *machine) softPhases(p *results, staged fleet.Digest) []Phase {
	return []Phase{
		{Stage: trace.Register, Run: m.register(p)},
		{Stage: trace.Manifest, Run: m.manifest(p)},
		{Stage: trace.Device, Run: func(ctx context.Context) (string, error) {
			if p.session.Assignment.Version == staged {
				return m.rootDevice.at.node() + ", staged before", nil
			}
			m.unstage() // the group was given another version meanwhile
			return m.device(p)(ctx)
		}},
		{Stage: trace.Root, Run: m.root(p)},
		{Stage: trace.Config, Run: m.configure(p)},
		{Stage: trace.SwitchRoot, Run: func(context.Context) (string, error) {
			return keep(&p.init)(prepareSoft(m.rootMount.at.root, p.session, m.timeline.console))
		}},
	}
}

// register and the functions below are phases of both lists.

func (m *machine) register(p *results) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return keep(&p.session)(m.registration.register(ctx, p.modules, p.link, p.lease))
	}
}

func (m *machine) manifest(p *results) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return keep(&p.verified)(m.version.fetchManifest(ctx, p.session, p.lease))
	}
}

func (m *machine) device(p *results) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return m.rootDevice.attachDevice(ctx, p.session, p.verified, p.lease)
	}
}

func (m *machine) root(p *results) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return keep(&p.root)(m.rootMount.mountRoot(ctx, p.session, p.verified))
	}
}

// configure also ends the search for the cache disk (settleCache).
func (m *machine) configure(p *results) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		files, text, err := m.settings.configure(ctx, p.session, p.lease)
		if err != nil {
			return "", err
		}
		kept := m.fallback.keepBoot(ctx, m.cacheDisk.settleCache(), p.session, p.verified, p.lease)
		hardware := m.registration.hardware(p.modules, p.link, p.lease)
		return text, m.settings.leaveSession(leaving{files, p.session, p.lease, p.root, hardware, kept})
	}
}
