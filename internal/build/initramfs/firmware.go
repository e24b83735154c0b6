package initramfs

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
)

// addFirmware packs the firmware files that modules name, where they can be found. Most adapters work
// without theirs, or have it in flash, so a missing one is a fact for the report and no error. A module may
// name a pattern (i915/*.bin); names with a directory part that leads out are ignored.
func (p *driverPacker) addFirmware(c *cpio, names []string, out *DriverCPIO) {
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		if !filepath.IsLocal(n) {
			continue
		}
		files := p.findFirmware(n)
		if len(files) == 0 {
			out.Missing = append(out.Missing, n)
		}
		for _, f := range files {
			data, err := readModule(context.Background(), f.path)
			if err != nil {
				out.Missing = append(out.Missing, n)
				continue
			}
			c.file("lib/firmware/"+f.name, 0o644, data)
			out.Firmware = append(out.Firmware, f.name)
		}
	}
}

type firmwareFile struct{ path, name string }

// findFirmware looks in the firmware directory, then in the tree; packed files count, since the kernel of a
// small initramfs may not unpack firmware.
func (p *driverPacker) findFirmware(name string) []firmwareFile {
	dirs := []string{
		p.opt.Firmware,
		filepath.Join(p.opt.Tree, "usr/lib/firmware"),
		filepath.Join(p.opt.Tree, "lib/firmware"),
	}
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		var found []firmwareFile
		for _, suffix := range []string{"", ".xz", ".zst"} {
			paths, _ := filepath.Glob(filepath.Join(dir, name) + suffix)
			for _, path := range paths {
				rel, err := filepath.Rel(dir, path)
				if err == nil {
					found = append(found, firmwareFile{path, strings.TrimSuffix(rel, suffix)})
				}
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}
