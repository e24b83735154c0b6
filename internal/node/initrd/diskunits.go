package initrd

import (
	"io"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
	"pando/internal/rootdir"
)

// diskUnit is a unit of the image that mounts a file system or turns swap on.
type diskUnit struct {
	name string // "srv-data.mount"
	line string // what a line of fstab would be
}

// unitDirs are where images have units, in the order of systemd: the first unit of a name counts.
const unitDirs = "/etc/systemd/system /usr/local/lib/systemd/system /usr/lib/systemd/system /lib/systemd/system"

// diskUnits reads the mount and swap units of a root.
func diskUnits(root *rootdir.Dir) (out []diskUnit) {
	for _, dir := range strings.Fields(unitDirs) {
		d, err := root.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			continue
		}
		names, _ := d.Readdirnames(-1) // those that were read are worth something
		d.Close()
		slices.Sort(names)
		for _, name := range names {
			kind := path.Ext(name)
			if kind != ".mount" && kind != ".swap" ||
				slices.ContainsFunc(out, func(u diskUnit) bool { return u.name == name }) {
				continue
			}
			f, err := root.Open(path.Join(dir, name), unix.O_RDONLY, 0)
			if err != nil {
				continue // a mask
			}
			text, err := io.ReadAll(f)
			f.Close()
			if err == nil {
				out = append(out, diskUnit{name, unitLine(string(text), kind)})
			}
		}
	}
	return out
}

// unitLine is the line of fstab that says the same as a unit.
func unitLine(text, kind string) string {
	set := map[string]string{"What": "none", "Where": "none", "Type": "auto", "Options": "defaults"}
	if kind == ".swap" {
		set["Type"] = "swap"
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, "=")
		if value = strings.TrimSpace(value); set[strings.TrimSpace(key)] != "" && value != "" {
			set[strings.TrimSpace(key)] = strings.ReplaceAll(value, " ", `\040`)
		}
	}
	return set["What"] + " " + set["Where"] + " " + set["Type"] + " " + set["Options"]
}

// maskUnits returns files that keep systemd from waiting for the local disks of these units: those of the lines that
// are local. A mount whose condition fails counts as done for what needs it, which a masked one does not.
func maskUnits(units []diskUnit, local []bool) (out []fleet.File) {
	for i, u := range units {
		switch {
		case !local[i]:
		case strings.HasSuffix(u.name, ".swap"):
			out = append(out, rootdir.Link("/etc/systemd/system/"+u.name, "/dev/null"))
		default:
			out = append(out, rootdir.Text("/run/systemd/system/"+u.name+".d/90-pando.conf",
				diskNote+"\n[Unit]\nConditionPathExists=!/run/pando\n[Mount]\nWhat=none\n"))
		}
	}
	return out
}
