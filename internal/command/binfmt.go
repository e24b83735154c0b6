package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// binfmt is the directory in which the kernel shows the interpreters of foreign programs (Linux,
// Documentation/admin-guide/binfmt-misc.rst).
const binfmt = "/proc/sys/fs/binfmt_misc"

// ForeignError means that this machine cannot run an architecture's programs. Do says what to do about it.
type ForeignError struct {
	Architecture string
	Why          string
	Do           string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf(
		"the image is for %s, and this machine (%s) does not run its programs: %s; %s",
		e.Architecture,
		runtime.GOARCH,
		e.Why,
		e.Do,
	)
}

// CanRun returns an error unless this machine runs programs of an architecture: its own, or one with an emulator.
func CanRun(architecture string) error { return runsBy(binfmt, architecture) }

// runsBy looks for an architecture's emulator in a directory of binfmt_misc.
func runsBy(dir, architecture string) error {
	if architecture == runtime.GOARCH {
		return nil
	}
	name := map[string]string{"amd64": "qemu-x86_64", "arm64": "qemu-aarch64"}[architecture]
	entry, err := os.ReadFile(filepath.Join(dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &ForeignError{architecture, "no emulator is known to the kernel as " + name,
			"install the package qemu-user-static (Debian 13: qemu-user-binfmt). Without systemd, " +
				"register the emulator yourself: " +
				"mount -t binfmt_misc binfmt_misc " + binfmt + "; cat /usr/lib/binfmt.d/" + name + ".conf > " +
				binfmt + "/register"}
	case err != nil:
		return fmt.Errorf("look for an emulator of %s: %w", architecture, err)
	}
	lines := strings.Split(string(entry), "\n")
	flags := ""
	for _, l := range lines {
		if f, ok := strings.CutPrefix(l, "flags: "); ok {
			flags = f
		}
	}
	switch {
	case !slices.Contains(lines, "enabled"):
		return &ForeignError{architecture, "its emulator is switched off", "echo 1 > " + binfmt + "/" + name}
	case !strings.Contains(flags, "F"): // without flag F the kernel looks for the emulator inside the image's tree
		return &ForeignError{architecture, "its emulator is known without the flag F, so only outside of the tree",
			"install the package qemu-user-static (Debian 13: qemu-user-binfmt) in the place of what registered it"}
	}
	return nil
}
