package check

import (
	"os"
	"slices"
	"strings"

	"pando/internal/image"
	"pando/internal/systree"
)

// family is a group of distributions that install packages in the same way, with the packages that bring the parts.
type family struct {
	ids      []string // IDs in /etc/os-release
	install  string
	packages map[string]string
}

func families() []family {
	return []family{
		{[]string{"ubuntu"}, "apt-get install",
			map[string]string{
				"kernel":            "linux-image-generic",
				"init":              "systemd-sysv",
				"udev":              "udev kmod",
				"ssh":               "openssh-server",
				image.LacksUploader: image.UploaderPackage,
			}},
		{[]string{"debian"}, "apt-get install",
			map[string]string{
				"kernel":            "linux-image-{architecture}",
				"init":              "systemd-sysv",
				"udev":              "udev kmod",
				"ssh":               "openssh-server",
				image.LacksUploader: image.UploaderPackage,
			}},
		{[]string{"fedora", "rhel", "centos"}, "dnf install",
			map[string]string{
				"kernel":            "kernel-core kernel-modules",
				"init":              "systemd",
				"udev":              "systemd-udev",
				"ssh":               "openssh-server",
				image.LacksUploader: image.UploaderPackage,
			}},
		{[]string{"suse", "opensuse"}, "zypper install",
			map[string]string{
				"kernel":            "kernel-default",
				"init":              "systemd systemd-sysvcompat",
				"udev":              "udev",
				"ssh":               "openssh-server",
				image.LacksUploader: image.UploaderPackage,
			}},
		{
			[]string{"alpine"},
			"apk add",
			map[string]string{
				"kernel": "linux-lts",
				"init":   "openrc busybox-openrc",
				"udev":   "eudev",
				"ssh":    "openssh",
			},
		},
		{
			[]string{"arch"},
			"pacman -S",
			map[string]string{"kernel": "linux", "init": "systemd-sysvcompat", "udev": "systemd", "ssh": "openssh"},
		},
	}
}

// brief says how to install the missing parts, with the package names of the tree's distribution.
func brief(root *os.Root, parts []string, architecture string) string {
	out := "install what is missing"
	if slices.Contains(parts, "kernel") {
		out = systree.KernelPackages(root.Name())
	}
	if install := bringing(root, parts, architecture); install != "" {
		out = install
	}
	if slices.Contains(parts, "kernel") {
		out += "\na kernel can also come from another image or tree: --kernel-from"
	}
	return out
}

// bringing returns the command that installs the parts. It returns "" if the tree's distribution is not known, or has
// no packages for them.
func bringing(root *os.Root, parts []string, architecture string) string {
	f, ok := familyOf(root)
	var packages []string
	for _, p := range parts {
		if f.packages[p] != "" {
			packages = append(packages, f.packages[p])
		}
	}
	if !ok || len(packages) == 0 {
		return ""
	}
	return "in the tree: " + f.install + " " + strings.ReplaceAll(
		strings.Join(packages, " "),
		"{architecture}",
		architecture,
	)
}

// familyOf determines the family from the tree's os-release file.
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
