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

// NotBootableError lists everything that a tree lacks, and the command that installs it.
type NotBootableError struct {
	Tree  string
	Lacks []string // missing parts with their consequence; the first ones keep nodes from booting
	Brief string   // how to get it
}

func (e *NotBootableError) Error() string {
	return fmt.Sprintf("tree %s cannot boot:\n  - %s\n%s", e.Tree, strings.Join(e.Lacks, "\n  - "), e.Brief)
}

// need is a part of a system that an image wants, and the paths where it may be.
type need struct {
	part  string // key in a family's list of packages
	paths []string
	fatal bool
	lack  string   // text of the finding if none of the paths exists
	with  []string // the part is wanted if one of these paths exists; none: always
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

// Tree is a tree with what is known about its kernel and its boot.
type Tree struct {
	Root string

	NoKernel           string // what is missing if no kernel can boot; "" if one can
	KernelPath         string // relative to the tree
	KernelArchitecture string

	AnyInit bool // the command line names an init program, or none is wanted
}

// Bootable checks for everything that a tree must or should have. If something keeps nodes from booting, the error
// lists all findings; otherwise they are warnings. parts has the keys of what is missing.
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
