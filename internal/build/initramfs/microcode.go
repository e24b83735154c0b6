package initramfs

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
)

// MicrocodeName is the name of the initramfs part with microcode updates.
const MicrocodeName = "microcode"

// microcodeFiles returns the path where a kernel looks for a vendor's updates (Linux,
// Documentation/arch/x86/microcode.rst), and the firmware files that are concatenated to make it, as distributions
// do.
func microcodeFiles() []struct{ path, files string } {
	return []struct{ path, files string }{
		{"kernel/x86/microcode/AuthenticAMD.bin", "amd-ucode/*"},
		{"kernel/x86/microcode/GenuineIntel.bin", "intel-ucode/*"},
	}
}

// Microcode makes the initramfs part with the microcode updates for x86 processors from the tree or the firmware
// directory; nil if there are none. It is not compressed and must come before the compressed parts: the kernel looks
// for updates before it can unpack anything.
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
				continue // a signature or a text file
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
