package initramfs

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
)

// MicrocodeName is the name of the part of K with updates for processors.
const MicrocodeName = "microcode"

// microcodeFiles reports where a kernel looks for a vendor's updates (Linux, Documentation/arch/x86/microcode.rst),
// and which files of a firmware directory they are made of: one after another, as distributions do it.
func microcodeFiles() []struct{ path, files string } {
	return []struct{ path, files string }{
		{"kernel/x86/microcode/AuthenticAMD.bin", "amd-ucode/*"},
		{"kernel/x86/microcode/GenuineIntel.bin", "intel-ucode/*"},
	}
}

// Microcode makes the part of K with the updates that the tree, or the firmware directory, has for x86 processors;
// nil when it has none. It is not compressed: a kernel looks for them before it can unpack anything, so the part
// has to come before those that are.
func Microcode(opt DriverOptions) ([]byte, error) {
	p := &driverPacker{opt: opt}
	c := newCPIO()
	found := false
	for _, m := range microcodeFiles() {
		var all bytes.Buffer
		files := p.findFirmware(m.files)
		slices.SortFunc(files, func(a, b firmwareFile) int { return strings.Compare(a.name, b.name) })
		for _, f := range files {
			if strings.HasPrefix(m.files, "amd") && !strings.HasSuffix(f.name, ".bin") {
				continue // a signature, a text
			}
			data, err := readModule(context.Background(), f.path)
			if err != nil {
				return nil, fmt.Errorf("microcode %s: %w", f.path, err)
			}
			all.Write(data)
		}
		if all.Len() > 0 {
			found = true
			c.file(m.path, 0o644, all.Bytes())
		}
	}
	if !found {
		return nil, nil
	}
	return c.bytes()
}
