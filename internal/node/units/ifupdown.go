package units

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"pando/internal/rundir"
)

// currentNames returns the names of the root's adapter in the image: its name, and the alternative names from udev.
// Linux 6.1 does not rename an adapter that is up, so "ens3" is only an alternative name there, but ifupdown accepts
// it.
func currentNames(dir string) ([]string, error) {
	var s rundir.Session
	if err := rundir.ReadJSON(dir, rundir.SessionName, &s); err != nil {
		return nil, err
	}
	link, err := netlink.LinkByIndex(s.Interface)
	if err != nil {
		return nil, fmt.Errorf("interface %d: %w", s.Interface, err)
	}
	return append([]string{link.Attrs().Name}, link.Attrs().AltNames...), nil
}

// OwnNIC is the condition of ifup@NAME.service. It returns 0 if the image configures the adapter, 1 (skip the unit)
// if it is the root's adapter.
func OwnNIC(dir, name string, stderr io.Writer) int {
	ours, err := currentNames(dir)
	if err != nil {
		fmt.Fprintln(stderr, "pando-init:", err)
		return 0
	}
	if slices.Contains(ours, name) {
		return 1
	}
	return 0
}

// IfupdownEnv writes an environment file that makes `ifup -a` and `ifdown -a` skip the root's adapter, in addition to
// those that the image excludes.
func IfupdownEnv(dir string, stderr io.Writer) int {
	ours, err := currentNames(dir)
	if err == nil {
		line := excludeLine(os.Getenv("EXCLUDE_INTERFACES"), ours...)
		err = os.WriteFile(filepath.Join(dir, "ifupdown.env"), []byte(line), 0o644)
	}
	if err != nil {
		fmt.Fprintln(stderr, "pando-init:", err)
		return 1
	}
	return 0
}

func excludeLine(others string, ours ...string) string {
	patterns := strings.Fields(others)
	for _, name := range ours {
		if !slices.Contains(patterns, name) {
			patterns = append(patterns, name)
		}
	}
	return "EXCLUDE_INTERFACES=\"" + strings.Join(patterns, " ") + "\"\n"
}
