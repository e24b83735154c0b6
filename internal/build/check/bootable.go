package check

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"pando/internal/image"
	"pando/internal/systree"
)

// NotBootableError says all that a tree lacks, and the command that brings it.
type NotBootableError struct {
	Tree  string
	Lacks []string // what, and what follows from it; the first ones keep nodes from booting
	Brief string   // how to get it
}

func (e *NotBootableError) Error() string {
	return fmt.Sprintf("tree %s cannot boot:\n  - %s\n%s", e.Tree, strings.Join(e.Lacks, "\n  - "), e.Brief)
}

// need is a part of a system that an image wants, and where it would be.
type need struct {
	part  string // key of a family's packages
	paths []string
	fatal bool
	lack  string   // what is said where none of the paths is there
	with  []string // it is wanted where one of these is there; none: always
}

func needs() []need {
	return []need{
		{"init", []string{"sbin/init", "lib/systemd/systemd", "usr/lib/systemd/systemd"}, true,
			"no init: /sbin/init is not there, and neither is systemd", nil},
		{
			"udev",
			[]string{
				"usr/lib/systemd/systemd-udevd",
				"lib/systemd/systemd-udevd",
				"sbin/udevd",
				"usr/sbin/udevd",
				"sbin/mdev",
			},
			false,
			"no udev: only the devices that a boot needs get drivers",
			nil,
		},
		{"ssh", []string{"usr/sbin/sshd", "usr/bin/sshd", "usr/sbin/dropbear", "sbin/dropbear"}, false,
			"no ssh server: nobody can log in over the network", nil},
		{
			image.LacksUploader,
			[]string{"usr/lib/systemd/systemd-journal-upload", "lib/systemd/systemd-journal-upload"},
			false,
			"no systemd-journal-upload: what its nodes log is gone with them",
			[]string{"usr/lib/systemd/systemd-journald", "lib/systemd/systemd-journald"},
		},
	}
}

// Tree is a tree, and what is known of its kernel and of how it is booted.
type Tree struct {
	Root string

	NoKernel           string // what is missing where there is no kernel that boots; "" there is one
	KernelPath         string // relative to the tree
	KernelArchitecture string

	AnyInit bool // init is named by the command line, or not wanted
}

// Bootable checks for everything that a tree must or should have. If something keeps nodes from booting, the error
// lists all findings; otherwise they are warnings. parts are the keys of what is missing.
func (b Tree) Bootable() (warnings, parts []string, err error) {
	root, err := os.OpenRoot(b.Root)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	var fatal, other []string
	architecture := systree.Architecture(b.Root)
	switch {
	case b.NoKernel != "":
		fatal, parts = append(fatal, "no kernel: "+b.NoKernel), append(parts, "kernel")
	case architecture != "" && architecture != b.KernelArchitecture:
		fatal = append(fatal, fmt.Sprintf("no kernel of its own: /%s is for %s, and its programs are for %s",
			b.KernelPath, b.KernelArchitecture, architecture))
		parts = append(parts, "kernel")
	}
	there := func(p string) bool { return systree.Has(b.Root, p) }
	for _, n := range needs() {
		if slices.ContainsFunc(n.paths, there) || n.part == "init" && b.AnyInit ||
			len(n.with) > 0 && !slices.ContainsFunc(n.with, there) {
			continue
		}
		parts = append(parts, n.part)
		if n.fatal {
			fatal = append(fatal, n.lack)
		} else {
			other = append(other, n.lack)
		}
	}
	architecture = cmp.Or(architecture, runtime.GOARCH)
	if len(fatal) > 0 {
		return nil, nil, &NotBootableError{b.Root, append(fatal, other...), brief(root, parts, architecture)}
	}
	for i, o := range other {
		if install := bringing(root, parts[i:i+1], architecture); install != "" {
			o += "; " + install
		}
		warnings = append(warnings, "there is "+o)
	}
	return warnings, parts, nil
}
