package build

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/image"
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

// bootable looks for all that a tree must or should have: an error lists everything, if one of it keeps nodes from
// booting; otherwise it is a warning each.
func (b *builder) bootable() (warnings []string, err error) {
	root, err := os.OpenRoot(b.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var fatal, other, parts []string
	var noKernel *NoKernelError
	architecture := treeArchitecture(b.root)
	switch k, err := b.kernelOf(); {
	case errors.As(err, &noKernel):
		fatal, parts = append(fatal, "no kernel: "+noKernel.Missing), append(parts, "kernel")
	case err != nil:
		return nil, err
	case architecture != "" && architecture != k.Architecture:
		fatal, parts = append(
			fatal,
			fmt.Sprintf(
				"no kernel of its own: /%s is for %s, and its programs are for %s",
				k.Path,
				k.Architecture,
				architecture,
			),
		), append(
			parts,
			"kernel",
		)
	}
	there := func(p string) bool { return inTree(b.root, p) }
	for _, n := range needs() {
		if slices.ContainsFunc(n.paths, there) || n.part == "init" && (b.anyInit || b.namesInit()) ||
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
	architecture = cmp.Or(architecture, hostArchitecture)
	if len(fatal) > 0 {
		return nil, &NotBootableError{b.root, append(fatal, other...), brief(root, parts, architecture)}
	}
	b.result.Provenance.Lacks = parts
	for i, o := range other {
		if install := bringing(root, parts[i:i+1], architecture); install != "" {
			o += "; " + install
		}
		warnings = append(warnings, "there is "+o)
	}
	return warnings, nil
}

// namesInit tells whether the command line has another init than the usual ones.
func (b *builder) namesInit() bool {
	args := b.CommandLine
	if b.Recipe != nil {
		args = append(slices.Clone(b.Recipe.CommandLine), args...)
	}
	return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "init=") })
}

// inTree tells whether a file is there. Links are followed as a node follows them, with the tree as "/".
func inTree(tree, name string) bool {
	f, err := openInTree(tree, name, unix.O_PATH)
	if err != nil {
		return false
	}
	f.Close()
	return true
}
