package initramfs

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
)

// addFirmware packs the firmware files that modules name, if they can be found. Most adapters work without theirs or
// have it in flash, so a missing file is reported and is no error. A module may name a pattern (i915/*.bin). Names
// that lead out of the firmware directory are ignored.
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

// findFirmware searches the firmware directory, then the tree. It unpacks compressed files, because the kernel may
// not be able to unpack firmware in the initramfs.
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
