package build

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
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
	lack  string // what is said where none of the paths is there
}

func needs() []need {
	return []need{
		{"init", []string{"sbin/init", "lib/systemd/systemd", "usr/lib/systemd/systemd"}, true,
			"no init: /sbin/init is not there, and neither is systemd"},
		{"udev", []string{"usr/lib/systemd/systemd-udevd", "lib/systemd/systemd-udevd", "sbin/udevd", "usr/sbin/udevd", "sbin/mdev"}, false,
			"no udev: only the devices that a boot needs get drivers"},
		{"ssh", []string{"usr/sbin/sshd", "usr/bin/sshd", "usr/sbin/dropbear", "sbin/dropbear"}, false,
			"no ssh server: nobody can log in over the network"},
	}
}

// family is a kind of distribution: how it installs packages, and which have the parts.
type family struct {
	ids      []string // of /etc/os-release
	install  string
	packages map[string]string
}

func families() []family {
	return []family{
		{[]string{"ubuntu"}, "apt-get install", map[string]string{"kernel": "linux-image-generic", "init": "systemd-sysv", "udev": "udev kmod", "ssh": "openssh-server"}},
		{[]string{"debian"}, "apt-get install", map[string]string{"kernel": "linux-image-{architecture}", "init": "systemd-sysv", "udev": "udev kmod", "ssh": "openssh-server"}},
		{[]string{"fedora", "rhel", "centos"}, "dnf install",
			map[string]string{"kernel": "kernel-core kernel-modules", "init": "systemd", "udev": "systemd-udev", "ssh": "openssh-server"}},
		{[]string{"suse", "opensuse"}, "zypper install", map[string]string{"kernel": "kernel-default", "init": "systemd systemd-sysvcompat", "udev": "udev", "ssh": "openssh-server"}},
		{[]string{"alpine"}, "apk add", map[string]string{"kernel": "linux-lts", "init": "openrc busybox-openrc", "udev": "eudev", "ssh": "openssh"}},
		{[]string{"arch"}, "pacman -S", map[string]string{"kernel": "linux", "init": "systemd-sysvcompat", "udev": "systemd", "ssh": "openssh"}},
	}
}

// bootable looks for all that a tree must or should have: an error lists everything, if one of it keeps nodes from booting;
// otherwise it is a warning each.
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
		fatal, parts = append(fatal, fmt.Sprintf("no kernel of its own: /%s is for %s, and its programs are for %s", k.Path, k.Architecture, architecture)), append(parts, "kernel")
	}
	for _, n := range needs() {
		if slices.ContainsFunc(n.paths, func(p string) bool { return inTree(b.root, p) }) || n.part == "init" && (b.anyInit || b.namesInit()) {
			continue
		}
		parts = append(parts, n.part)
		if n.fatal {
			fatal = append(fatal, n.lack)
		} else {
			other = append(other, n.lack)
		}
	}
	if len(fatal) > 0 {
		return nil, &NotBootableError{b.root, append(fatal, other...), brief(root, parts, cmp.Or(architecture, hostArchitecture))}
	}
	for _, o := range other {
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

// brief names the packages that the tree's distribution has for the parts.
func brief(root *os.Root, parts []string, architecture string) string {
	out := "install what is missing"
	if slices.Contains(parts, "kernel") {
		out = kernelPackages(root.Name())
	}
	if f, ok := familyOf(root); ok {
		var packages []string
		for _, p := range parts {
			packages = append(packages, f.packages[p])
		}
		out = "in the tree: " + f.install + " " + strings.ReplaceAll(strings.Join(packages, " "), "{architecture}", architecture)
	}
	if slices.Contains(parts, "kernel") {
		out += "\na kernel can also come from another image or tree: --kernel-from"
	}
	return out
}

// familyOf reads /etc/os-release.
func familyOf(root *os.Root) (family, bool) {
	ids := map[string]bool{}
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		text, err := root.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if key == "ID" || key == "ID_LIKE" {
				for _, id := range strings.Fields(strings.Trim(value, `"'`)) {
					ids[id] = true
				}
			}
		}
	}
	for _, f := range families() {
		if slices.ContainsFunc(f.ids, func(id string) bool { return ids[id] }) {
			return f, true
		}
	}
	return family{}, false
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
