package extension

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Left is a change that belongs to an extension but cannot be in it.
type Left struct {
	Path      string
	Why       string
	Essential bool // the extension's programs do not work without it
}

// String describes the change in one line.
func (l Left) String() string { return l.Path + ": " + l.Why }

// quiet lists paths, relative to the root, that are not reported: they belong to the machine that installs, are made
// again on each machine, or record what is installed.
func quiet() []string {
	return []string{
		"boot",
		"dev",
		"proc",
		"run",
		"sys",
		"tmp",
		"root",
		"var/cache",
		"var/log",
		"var/lib/dpkg",
		"var/lib/apt",
		"var/lib/ucf",
		"var/lib/pam",
		"var/lib/systemd/deb-systemd-helper-enabled",
		"var/lib/systemd/deb-systemd-user-helper-enabled",
		"var/lib/rpm",
		"var/lib/dnf",
		"var/lib/misc",
		"var/tmp",
		"etc/ld.so.cache",
		"etc/.pwd.lock",
		"etc/machine-id",
		"etc/rc0.d",
		"etc/rc1.d",
		"etc/rc2.d",
		"etc/rc3.d",
		"etc/rc4.d",
		"etc/rc5.d",
		"etc/rc6.d",
		"etc/rcS.d",
		"etc/init.d",
		"initrd.img",
		"initrd.img.old",
		"vmlinuz",
		"vmlinuz.old",
	}
}

// accounts lists the files that define users and groups.
func accounts() []string {
	return []string{"etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "etc/subuid", "etc/subgid"}
}

// outside is one change that the installation made outside of /usr and /opt.
type outside struct {
	path  string // relative to the root
	gone  bool
	users string // for a file of accounts: its new names, separated by commas
}

// judge lists the changes that an extension cannot carry and that matter. services maps files outside of /usr and
// /opt to the package that owns them, if that package has an enabled service: without the file its service would not
// run as it should.
func judge(changes []outside, services map[string]string) []Left {
	var out []Left
	for _, c := range changes {
		if isBelow(c.path, quiet()) {
			continue
		}
		l := Left{
			Path: "/" + c.path,
			Why:  "is not carried; give it to nodes as a config file, or put it into the image",
		}
		service := serviceOf(c.path, services)
		switch {
		case slices.Contains(accounts(), c.path) && c.users == "":
			continue // no new names: the node has its own version of the file
		case slices.Contains(accounts(), c.path):
			l.Why, l.Essential = "new: "+c.users+"; give nodes the account (--user), or put the package into the "+
				"image", true
		case path.Dir(c.path) == "etc/ld.so.conf.d":
			l.Why, l.Essential = "programs would not find their libraries in the directories that it names", true
		case c.gone:
			l.Why = "was removed here, but nodes still have it"
		case service != "":
			l.Why, l.Essential = fmt.Sprintf(
				"belongs to %s, whose service would run without it; give it to nodes as a config file, or put the "+
					"package into the image",
				service,
			), true
		case strings.HasPrefix(c.path, "var/"):
			l.Why = "is not carried; programs that want it have to make it"
		}
		out = append(out, l)
	}
	slices.SortStableFunc(out, func(a, b Left) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

// serviceOf returns the package with an enabled service that owns a path, or something below it.
func serviceOf(p string, services map[string]string) string {
	if of := services[p]; of != "" {
		return of
	}
	for owned, of := range services {
		if strings.HasPrefix(owned, p+"/") {
			return of
		}
	}
	return ""
}

func isBelow(p string, places []string) bool {
	return slices.ContainsFunc(places, func(place string) bool { return p == place || strings.HasPrefix(p, place+"/") })
}

// newNames returns the names in a file of accounts that its earlier content did not have.
func newNames(before, after string) string {
	had := map[string]bool{}
	for line := range strings.Lines(before) {
		name, _, _ := strings.Cut(line, ":")
		had[name] = true
	}
	var out []string
	for line := range strings.Lines(after) {
		if name, _, ok := strings.Cut(line, ":"); ok && !had[name] {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}

// releaseFile returns the extension-release file: the lines of os-release that systemd-sysext compares with the
// system that the extension is mounted over.
func releaseFile(osRelease string) string {
	values := map[string]string{}
	for line := range strings.Lines(osRelease) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[k] = v
		}
	}
	out := "ID=" + values["ID"] + "\n"
	switch {
	case values["SYSEXT_LEVEL"] != "":
		out += "SYSEXT_LEVEL=" + values["SYSEXT_LEVEL"] + "\n"
	case values["VERSION_ID"] != "":
		out += "VERSION_ID=" + values["VERSION_ID"] + "\n"
	}
	return out
}

// EssentialError means that an extension would lack files that its programs need.
type EssentialError struct {
	Name string
	Left []Left // with those that are not essential
}

func (e *EssentialError) Error() string {
	var lines []string
	for _, l := range e.Left {
		if l.Essential {
			lines = append(lines, "  - "+l.String())
		}
	}
	return fmt.Sprintf(
		"extension %s would lack what it needs: only /usr and /opt are carried\n%s",
		e.Name,
		strings.Join(lines, "\n"),
	)
}
