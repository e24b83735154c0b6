package initrd

import (
	"errors"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"pando/internal/rootdir"
)

// updatedMarks are the files by whose times systemd knows that /etc and /var have what /usr wants of them
// (systemd-update-done.service(8)).
var updatedMarks = []string{"/etc/.updated", "/var/.updated"}

// updatedSigns are what is there when they have: what would be made anew otherwise, with programs that would make
// it. The cache of libraries counts always; a tree without it was never set up.
var updatedSigns = []struct{ unit, made string }{
	{"", "/etc/ld.so.cache"},
	{"", "/etc/passwd"},
	{"/usr/lib/systemd/system/systemd-hwdb-update.service", "/usr/lib/udev/hwdb.bin"},
	{"/usr/lib/systemd/system/systemd-journal-catalog-update.service", "/var/lib/systemd/catalog/database"},
}

// markUpdated tells systemd that a root needs no first-boot update (ConditionNeedsUpdate). A root in memory would run
// it at each boot, and read every library for a cache that the packages have already made. It leaves alone a root that
// has its own stamps.
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

// makeMark makes an empty file of such a time.
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
