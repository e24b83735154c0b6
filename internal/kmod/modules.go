package kmod

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/image"
)

// moduleCompressed is MODULE_INIT_COMPRESSED_FILE of finit_module(2): the kernel unpacks the file.
const moduleCompressed = 4

// Loader loads kernel modules of the initramfs. It is not safe for concurrent use.
type Loader struct {
	Index  *Index
	cmd    CommandLine
	Loaded map[string]bool
	failed map[string]error
	Names  []string // in load order

	insert func(m image.Module, options []string) error
}

// NewLoader returns a Loader that has not loaded any module.
func NewLoader(index *Index, cmd CommandLine) *Loader {
	return &Loader{Index: index, cmd: cmd, Loaded: map[string]bool{}, failed: map[string]error{}, insert: insertModule}
}

// fixedOptions returns the module options that Pando needs: one NBD device, without partitions.
func fixedOptions(module string) []string {
	if module == "nbd" {
		return []string{"nbds_max=1", "max_part=0"}
	}
	return nil
}

// Load loads the named modules and those that they need. It continues after a failure, returns all errors, and does
// not retry a failed module, but returns the error of one that every boot needs again. ENODEV of others is no error:
// the module found no hardware for it (crc32c_intel without SSE4.2), and another module does its work.
func (l *Loader) Load(names []string) error {
	skip := func(n string) bool { return l.Loaded[n] || l.failed[n] != nil || l.cmd.Blacklist[n] }
	needed := func(n string) bool { return slices.Contains(l.Index.Always, n) }
	var errs []error
	for _, n := range names {
		if err := l.failed[n]; err != nil && needed(n) {
			errs = append(errs, err)
		}
	}
	for _, m := range l.Index.order(names, skip) {
		err := l.insert(m, append(l.cmd.Options[m.Name], fixedOptions(m.Name)...))
		if err != nil {
			l.failed[m.Name] = err
			if needed(m.Name) || !errors.Is(err, unix.ENODEV) {
				errs = append(errs, err)
			}
			continue
		}
		l.Loaded[m.Name] = true
		l.Names = append(l.Names, m.Name)
	}
	return errors.Join(errs...)
}

// insertModule loads a module and returns when its init function has finished. A driver has then found its devices.
func insertModule(m image.Module, options []string) error {
	if m.Path == "" {
		return errors.New("a driver of the image's kernel was not sent: build the image again with --driver " + m.Name)
	}
	f, err := os.Open(m.Path)
	if err != nil {
		return fmt.Errorf("load module %s: %w", m.Name, err)
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(m.Path, ".ko") {
		flags = moduleCompressed
	}
	err = unix.FinitModule(int(f.Fd()), strings.Join(options, " "), flags)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load module %s: %w", m.Name, err)
	}
	return nil
}

// Wanted returns the modules for these device aliases that are not loaded yet, not blacklisted, and have not failed.
func (l *Loader) Wanted(aliases []string) []string {
	var out []string
	for _, a := range aliases {
		for _, n := range l.Index.match(a) {
			if !l.Loaded[n] && l.failed[n] == nil && !l.cmd.Blacklist[n] {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// DeviceAliases returns the modaliases of all devices, sorted, without duplicates. MMC cards have theirs only in the
// uevent file (drivers/mmc/core/bus.c).
func DeviceAliases(sys string) []string {
	files, _ := filepath.Glob(filepath.Join(sys, "bus/*/devices/*/modalias"))
	var out []string
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil {
			out = append(out, strings.TrimSpace(string(data)))
		}
	}
	cards, _ := filepath.Glob(filepath.Join(sys, "bus/mmc/devices/*/uevent"))
	for _, f := range cards {
		data, _ := os.ReadFile(f) // it may be gone
		for line := range strings.Lines(string(data)) {
			if a, ok := strings.CutPrefix(line, "MODALIAS="); ok {
				out = append(out, strings.TrimSpace(a))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
