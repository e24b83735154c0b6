package rootdir

import (
	"bytes"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
)

// Same reports whether a file exists (there), and whether content, mode and owner are those of f (is).
func (r *Dir) Same(f fleet.File) (is, there bool, err error) {
	if f.Owner != "" {
		if f.UID, f.GID, err = r.owner(f.Owner); err != nil {
			return false, true, err
		}
	}
	file, err := r.Open(f.Path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, false, nil
	}
	defer file.Close()
	var st unix.Stat_t
	if unix.Fstat(int(file.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false, true, nil
	}
	if st.Size != int64(len(f.Data)) || st.Mode&0o7777 != f.Mode&0o7777 || int(st.Uid) != f.UID ||
		int(st.Gid) != f.GID {
		return false, true, nil
	}
	data, err := r.read(f.Path)
	return err == nil && bytes.Equal(data, f.Data), true, nil
}
