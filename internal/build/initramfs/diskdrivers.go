package initramfs

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/store"
)

// DiskDriversName is the name of the driver part that DiskDrivers makes. A node that has this part looks for disks.
const DiskDriversName = "disk"

// diskList lists the modules of that part: drivers for the disks of PCs, servers, thin clients (eMMC) and virtual
// machines. It has no RAID controllers, because their drivers are large.
func diskList() DriverList {
	return DriverList{Name: DiskDriversName, unpack: true, Devices: strings.Fields(`
		ahci ata_piix nvme vmd sd_mod uas usb_storage mmc_block sdhci_pci sdhci_acpi virtio_blk virtio_scsi vmw_pvscsi hv_storvsc ` + usbHosts)}
}

// DiskDrivers makes the initramfs part with disk drivers, for nodes that keep a cache on a disk. It reads the modules
// from the version's own root, so versions need not be built for it. A node also needs the base part.
func DiskDrivers(ctx context.Context, d *store.Dir, m image.Manifest) (DriverCPIO, error) {
	out, err := diskDrivers(ctx, d, m)
	if err != nil {
		return out, fmt.Errorf("disk drivers of kernel %s: %w", m.Kernel.Release, err)
	}
	return out, nil
}

func diskDrivers(ctx context.Context, d *store.Dir, m image.Manifest) (out DriverCPIO, err error) {
	dir, err := os.MkdirTemp("", "pando-drivers-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(dir)
	x, err := newModuleExtract(ctx, d, m, dir)
	if err != nil {
		return out, err
	}
	for _, f := range []string{"modules.dep", "modules.alias", "modules.softdep", "modules.builtin"} {
		if err := x.copy(f); err != nil {
			return out, err
		}
	}
	tree, err := openModules(ctx, dir, m.Kernel.Release)
	if err != nil {
		return out, err
	}
	opt := DriverOptions{Tree: dir, Release: m.Kernel.Release}
	p := &driverPacker{tree: tree, opt: opt, taken: map[string]bool{}, loaded: map[string]loadedModule{}}
	// The node also has the base part.
	if _, _, err = p.closure(DriverLists(m.Root.FileSystem, m.Architecture)[0]); err != nil {
		return out, err
	}
	list := diskList()
	wanted := *p
	wanted.taken = make(map[string]bool)
	for n := range p.taken {
		wanted.taken[n] = true
	}
	names, _, err := wanted.closure(list)
	if err != nil {
		return out, err
	}
	for _, n := range names {
		if err := x.copy(tree.modules[n].path); err != nil {
			return out, err
		}
	}
	if out, err = p.pack(ctx, list); err == nil {
		out.Data, err = CompressCPIO(out.Data)
	}
	return out, err
}

// moduleExtract copies files of a version's module directory into a tree with the same layout.
type moduleExtract struct {
	root *imagefs.Reader
	rmap *imagefs.Map
	from string // directory in the root: "usr/lib/modules/6.1.0-32-amd64"
	to   string
}

func newModuleExtract(ctx context.Context, d *store.Dir, m image.Manifest, dir string) (*moduleExtract, error) {
	x := &moduleExtract{to: filepath.Join(dir, "usr/lib/modules", m.Kernel.Release)}
	var err error
	if x.root, err = imagefs.Open(ctx, d, m); err != nil {
		return nil, err
	}
	if x.rmap, err = imagefs.ReadMap(ctx, d, m); err != nil {
		return nil, err
	}
	for _, lib := range []string{"usr/lib/modules/", "lib/modules/"} {
		if f, ok := x.rmap.Find(lib + m.Kernel.Release); ok && f.Dir {
			x.from = lib + m.Kernel.Release
			return x, nil
		}
	}
	return nil, fmt.Errorf("the root has no modules of it")
}

func (x *moduleExtract) copy(name string) error {
	f, ok := x.rmap.Find(x.from + "/" + name)
	if !ok || f.Dir {
		return fmt.Errorf("the root has no %s/%s", x.from, name)
	}
	to := filepath.Join(x.to, filepath.Clean("/"+name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	data, err := io.ReadAll(io.NewSectionReader(x.root, int64(f.Start)*chunk.BlockSize, f.Size))
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
