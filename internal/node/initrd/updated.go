package initrd

import (
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"pando/internal/rootdir"
)

// updatedMarks are the files whose times tell systemd that /etc and /var are up to date with /usr
// (systemd-update-done.service(8)).
var updatedMarks = []string{"/etc/.updated", "/var/.updated"}

// updatedSigns lists what an update would make, with the unit that makes it. If the root has a unit but not its file,
// an update is needed. The first two always count: a tree without them was never set up.
var updatedSigns = []struct{ unit, made string }{
	{"", "/etc/ld.so.cache"},
	{"", "/etc/passwd"},
	{"/usr/lib/systemd/system/systemd-hwdb-update.service", "/usr/lib/udev/hwdb.bin"},
	{"/usr/lib/systemd/system/systemd-journal-catalog-update.service", "/var/lib/systemd/catalog/database"},
}

// markUpdated marks a root as up to date, so that systemd runs no first-boot update (ConditionNeedsUpdate). A root in
// memory would run it at each boot and read every library. A root that has its own marks is left alone. It reports
// whether it wrote the marks.
func markUpdated(root *rootdir.Dir) (bool, error) {
	if slices.ContainsFunc(updatedMarks, root.Exists) {
		return false, nil
	}
	for _, s := range updatedSigns {
		if (s.unit == "" || root.Exists(s.unit)) && !root.Exists(s.made) {
			return false, nil
		}
	}
	usr, err := root.Open("/usr", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return false, err
	}
	defer usr.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(usr.Fd()), &st); err != nil {
		return false, err
	}
	for _, name := range updatedMarks {
		err = errors.Join(err, makeMark(root, name, st.Mtim))
	}
	return err == nil, err
}

// makeMark creates an empty file with this modification time.
func makeMark(r *rootdir.Dir, name string, at unix.Timespec) error {
	f, err := r.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	f.Close()
	dir, err := r.Open(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.UtimesNanoAt(int(dir.Fd()), path.Base(name), []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}
