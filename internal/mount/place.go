package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// placed is a file that is mounted over a path of the tree while a command runs.
type placed struct {
	Path    string // "etc/resolv.conf"
	Content []byte
	Mode    os.FileMode
}

// noDaemons is Debian's policy-rc.d(8). It keeps packages from starting daemons, which would use this machine's
// network.
var noDaemons = placed{"usr/sbin/policy-rc.d", []byte("#!/bin/sh\nexit 101\n"), 0o755}

func (c Command) files() []placed {
	files := []placed{noDaemons}
	if c.Resolver != nil {
		files = append(files, placed{"etc/resolv.conf", c.Resolver, 0o644})
	}
	return files
}

// places records the empty files that place created in a tree as mount points.
type places struct {
	root  *os.Root
	files []placed // the files that have a mount point
	made  []madeFile
}

// madeFile is a created mount point and the times of its directory.
type madeFile struct {
	path          string
	info          fs.FileInfo
	before, after time.Time // modification time of the directory
}

// place creates an empty file in the tree for each of files that does not exist there. It leaves out files whose
// directory does not exist.
func place(tree string, files []placed) (*places, error) {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return nil, err
	}
	p := &places{root: root}
	for _, f := range files {
		if err := p.add(f); err != nil {
			return nil, errors.Join(err, p.restore())
		}
	}
	return p, nil
}

func (p *places) add(f placed) error {
	dir, err := p.root.Stat(path.Dir(f.Path))
	if err != nil || !dir.IsDir() {
		return nil //nolint:nilerr // a tree without such a directory has no use for the file
	}
	p.files = append(p.files, f)
	if _, err := p.root.Lstat(f.Path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := p.root.WriteFile(f.Path, nil, 0o644); err != nil {
		return err
	}
	info, err := p.root.Lstat(f.Path)
	if err != nil {
		return err
	}
	now, err := p.root.Stat(path.Dir(f.Path))
	if err != nil {
		return err
	}
	p.made = append(p.made, madeFile{f.Path, info, dir.ModTime(), now.ModTime()})
	return nil
}

// restore removes the files that place created, unless the command changed them. If nothing else changed the
// directory, its modification time is restored too.
func (p *places) restore() error {
	var errs error
	for i := len(p.made) - 1; i >= 0; i-- {
		if err := p.remove(p.made[i]); err != nil {
			errs = errors.Join(errs, fmt.Errorf("remove %s, which was mounted on: %w", p.made[i].path, err))
		}
	}
	p.made = nil
	return errors.Join(errs, p.root.Close())
}

func (p *places) remove(m madeFile) error {
	dir := path.Dir(m.path)
	now, err := p.root.Lstat(m.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !(os.SameFile(now, m.info) && now.Size() == 0) {
		return nil
	}
	if err != nil {
		return err
	}
	changed, err := p.root.Stat(dir)
	if err != nil {
		return err
	}
	if err := p.root.Remove(m.path); err != nil {
		return err
	}
	if !changed.ModTime().Equal(m.after) {
		return nil
	}
	f, err := p.root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return setTime(f, m.before)
}

// setTime sets the modification time of an open file, to the nanosecond.
func setTime(f *os.File, to time.Time) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(to.UnixNano())}
	return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), times, 0)
}
