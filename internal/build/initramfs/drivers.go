package initramfs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"pando/internal/image"
	"pando/internal/rawdigest"
)

// DriverOptions says which kernel modules to pack.
type DriverOptions struct {
	Tree     string // root of a tree with /lib/modules
	Release  string // kernel release, as uname -r has it
	Firmware string // directory with firmware files, searched before the tree's /lib/firmware; "" none
	Log      *slog.Logger

	Architecture string // "arm64" has adapters of its own; "": amd64

	FileSystem string // kind of the root file system; "": erofs

	More []string // modules of further network adapters; each also gets a part of its own

	KeepXZ bool // the kernel is known to unpack .ko.xz itself, whatever the tree's configuration says

	// Packed returns the compressed form of an archive from an earlier build, or nil. One goroutine calls it. nil:
	// everything is compressed.
	Packed func(archive []byte) []byte
}

// DriverCPIO is one part of the initramfs with kernel modules.
type DriverCPIO struct {
	Name     string   // "base", "net", or the driver of a NIC: "e1000e"
	Data     []byte   // cpio, compressed for the kernel; the same bytes for the same tree
	Raw      int64    // bytes before compression
	Modules  []string // names of the modules in the part
	Absent   []string // modules of the list that this kernel does not have
	Firmware []string // firmware files packed
	Missing  []string // firmware files that a module names but that were not found

	InsteadOf string        // larger part, which a node gets if its NIC is not known; "": for every node
	For       []string      // modules of the NICs that the part is for
	PCI       image.PCIList // NICs that the part is for

	Digest [32]byte // of the archive before compression
}

// Drivers makes the driver parts of an initramfs from the modules of one kernel: "base", which every node needs;
// "net", with all usual wired network adapters; then one part for each adapter. A missing required module (nbd,
// erofs) is an error.
func Drivers(ctx context.Context, opt DriverOptions) ([]DriverCPIO, error) {
	tree, err := openModules(ctx, opt.Tree, opt.Release)
	if err != nil {
		return nil, fmt.Errorf("drivers of kernel %s: %w", opt.Release, err)
	}
	tree.keepXZ = tree.keepXZ || opt.KeepXZ
	p := &driverPacker{tree: tree, opt: opt, taken: map[string]bool{}, loaded: map[string]loadedModule{}}
	var out []DriverCPIO
	packing, err := newPacking()
	if err != nil {
		return nil, err
	}
	defer packing.wait()
	for _, name := range opt.More {
		if tree.modules[name] == nil && !tree.builtin[name] {
			return nil, fmt.Errorf("drivers of kernel %s: it has no module %s", opt.Release, name)
		}
	}
	lists := append(DriverLists(opt.FileSystem, opt.Architecture), nicLists()...)
	for _, list := range withMore(lists, opt.More) {
		if list.insteadOf != "" {
			if list = p.beside(out[0], list); len(list.nics) == 0 {
				continue
			}
		}
		d, err := p.pack(ctx, list)
		if err != nil {
			return nil, fmt.Errorf("drivers %q of kernel %s: %w", list.Name, opt.Release, err)
		}
		d.Digest = rawdigest.Sum(d.Data)
		packing.add(d.Data, opt.Packed)
		out = append(out, d)
	}
	packed := packing.wait()
	for i := range out {
		d := &out[i]
		d.Data = packed[i]
		if opt.Log != nil {
			opt.Log.Info("drivers packed", "set", d.Name, "modules", len(d.Modules), "bytes", len(d.Data),
				"raw", d.Raw, "absent", len(d.Absent), "firmware", len(d.Firmware), "firmware missing", len(d.Missing))
		}
	}
	return out, nil
}

// CheckNeeds returns the error that Drivers would return if the kernel lacks a module that every boot loads. A build
// calls it before the long steps.
func CheckNeeds(ctx context.Context, opt DriverOptions) error {
	tree, err := openModules(ctx, opt.Tree, opt.Release)
	if err != nil {
		return fmt.Errorf("drivers of kernel %s: %w", opt.Release, err)
	}
	var lacks []string
	for _, list := range DriverLists(opt.FileSystem, opt.Architecture) {
		for _, n := range list.Always {
			if tree.modules[n] == nil && !tree.builtin[n] {
				lacks = append(lacks, n)
			}
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("kernel %s has no %s, neither as a module nor built in, and no node boots without: "+
			"install the package with its other modules, or another kernel", opt.Release, strings.Join(lacks, ", "))
	}
	return nil
}

// driverPacker packs one list after another. A module goes only into the first part that needs it.
type driverPacker struct {
	tree   *moduleTree
	opt    DriverOptions
	taken  map[string]bool
	loaded map[string]loadedModule // modules that were read, by name: several parts may have one
}

func (p *driverPacker) load(ctx context.Context, name string, unpack bool) (loadedModule, error) {
	if m, ok := p.loaded[name]; ok {
		return m, nil
	}
	m, err := p.tree.load(ctx, name, unpack)
	if err == nil && !unpack {
		p.loaded[name] = m
	}
	return m, err
}

// pack makes an archive without compressing it.
func (p *driverPacker) pack(ctx context.Context, list DriverList) (DriverCPIO, error) {
	out := DriverCPIO{Name: list.Name, InsteadOf: list.insteadOf, For: p.known(list.nics), PCI: p.pciOf(list)}
	names, absent, err := p.closure(list)
	if err != nil {
		return out, err
	}
	out.Absent = absent
	set := image.DriverSet{Format: 1, Name: list.Name, Release: p.opt.Release}
	for _, n := range list.Always {
		if !p.tree.builtin[n] {
			set.Always = append(set.Always, n)
		}
	}
	c := newCPIO()
	var firmware []string
	for _, n := range names {
		m, err := p.load(ctx, n, list.unpack)
		if err != nil {
			return out, err
		}
		out.Modules = append(out.Modules, n)
		firmware = append(firmware, m.firmware...)
		c.file(strings.TrimPrefix(m.info.Path, "/"), 0o644, m.data)
		set.Modules = append(set.Modules, m.info)
	}
	if list.Name == netDrivers {
		set.Modules = append(set.Modules, p.others()...)
	}
	p.addFirmware(c, firmware, &out)
	return out, finishDrivers(c, set, &out)
}

// others lists the network adapters that the kernel has drivers for and that are in no part. They have no path. A
// node without a driver for its adapter uses the list to name the missing module.
func (p *driverPacker) others() (out []image.Module) {
	for _, name := range slices.Sorted(maps.Keys(p.tree.modules)) {
		m := p.tree.modules[name]
		if p.taken[name] || !wiredDriver(name, m.path) {
			continue
		}
		o := image.Module{Name: name}
		for _, a := range m.aliases {
			bus, _, _ := strings.Cut(a, ":")
			if slices.Contains(strings.Fields(adapterBuses), bus) {
				o.Aliases = append(o.Aliases, a)
			}
		}
		if len(o.Aliases) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// wiredDriver reports whether a module of the kernel drives adapters that a node may boot by.
func wiredDriver(name, path string) bool {
	below, ok := strings.CutPrefix(path, "kernel/drivers/net/")
	if !ok || slices.Contains(strings.Fields(modems), strings.ReplaceAll(name, "-", "_")) {
		return false
	}
	dir, _, nested := strings.Cut(below, "/")
	return !nested || slices.Contains(strings.Fields(adapterDirs), dir)
}

func finishDrivers(c *cpio, set image.DriverSet, out *DriverCPIO) error {
	data, err := json.Marshal(set)
	if err != nil {
		return err
	}
	c.file("pando/drivers/"+set.Name+".json", 0o644, data)
	out.Data, err = c.bytes()
	out.Raw = int64(len(out.Data))
	return err
}

// closure returns the modules of the list and their dependencies, sorted, without the modules of earlier parts.
func (p *driverPacker) closure(list DriverList) (names, absent []string, err error) {
	add := func(n string) bool {
		if p.tree.builtin[n] {
			return true
		}
		if _, ok := p.tree.modules[n]; !ok {
			return false
		}
		for _, need := range append(p.tree.needs(n), n) {
			if !p.taken[need] {
				p.taken[need] = true
				names = append(names, need)
			}
		}
		return true
	}
	for _, n := range list.Always {
		if !add(n) {
			return nil, nil, fmt.Errorf(
				"the kernel has no module %s and not built in either; a node cannot boot with it",
				n,
			)
		}
	}
	for _, n := range list.Devices {
		if !add(n) {
			absent = append(absent, n)
		}
	}
	slices.Sort(names)
	slices.Sort(absent)
	return names, absent, nil
}
