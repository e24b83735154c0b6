package source

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// unpacker unpacks archives into a tree, one on top of the other. It must be used by one goroutine.
type unpacker struct {
	root   int // the tree, opened with O_PATH
	path   string
	layers bool // apply whiteouts
	budget *budget

	last  directory                // directory that dir keeps open
	stale bool                     // something was removed: the name of last may mean another directory
	seed  maphash.Seed             // of the hashes in fresh; see entry
	fresh map[uint64]struct{}      // entries that the present archive made; its whiteouts do not hide them
	times map[uint64]unix.Timespec // of directories, by inode; set at the end: a new file changes them
	tally tally
	buf   []byte
}

// blockSize is the size of a read in bytes; a block of zeros becomes a hole.
const blockSize = 64 << 10

func newUnpacker(root string, layers bool, b *budget) (*unpacker, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open tree %s: %w", root, err)
	}
	u := &unpacker{root: fd, path: root, layers: layers, budget: b, last: directory{fd: -1}, seed: maphash.MakeSeed(),
		fresh: map[uint64]struct{}{}, times: map[uint64]unix.Timespec{}, buf: make([]byte, blockSize)}
	// A root directory that no archive lists gets the usual mode and a fixed time.
	if err := u.bareRoot(); err != nil {
		u.close()
		return nil, fmt.Errorf("prepare tree %s: %w", root, err)
	}
	return u, nil
}

func (u *unpacker) bareRoot() error {
	d, err := u.open("")
	if err != nil {
		if errors.Is(err, unix.ENOSYS) {
			return errors.New("this kernel has no openat2, which keeps an archive in its tree; Linux 5.6 has it")
		}
		return err
	}
	defer unix.Close(d.fd)
	u.times[d.ino] = unix.Timespec{}
	return unix.Fchmodat(d.fd, ".", 0o755, 0)
}

func (u *unpacker) close() {
	u.forget()
	unix.Close(u.root)
}

// archiveEnd is the minimum number of zero bytes at the end of an archive. With fewer, the archive is truncated.
const archiveEnd = 512

// archive unpacks one archive into the tree. After an error the tree is of no use.
func (u *unpacker) archive(ctx context.Context, r io.Reader) error {
	clear(u.fresh)
	buffered := bufio.NewReaderSize(r, 64<<10)
	head, err := buffered.Peek(headSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	head = slices.Clone(head)
	counting := &unpacked{r: buffered, b: u.budget}
	in := tar.NewReader(counting)
	for first := true; ; first = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := in.Next()
		if first && err != nil && !u.layers {
			if what := whatIs(head); what != "" {
				return errors.New(what)
			}
		}
		if err == io.EOF { //nolint:errorlint // archive/tar returns it bare
			if counting.zeros < archiveEnd && !u.layers { // a layer's digest shows whether it is complete
				return errors.New("the archive has no end: it is truncated, or no tar archive")
			}
			_, err := io.Copy(io.Discard, counting) // read on, because the checksum of the compression comes last
			return err
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if err := u.put(h, in); err != nil {
			return roomHint(fmt.Errorf("%s: %w", shown(h.Name), err), u.path)
		}
	}
}

// put makes the file of one archive entry.
func (u *unpacker) put(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if u.layers {
		if done, err := u.whiteout(name, h); done || err != nil {
			return err
		}
	}
	at, err := attributesOf(h)
	if err != nil {
		return err
	}
	if name == "" {
		if h.Typeflag != tar.TypeDir {
			return errors.New("the entry for the tree's root is not a directory")
		}
		return u.rootEntry(at)
	}
	above, leaf := split(name)
	d, err := u.dir(above, at.time)
	if err != nil {
		return err
	}
	return u.make(d, leaf, h, at, content)
}

// make makes a directory entry and replaces an existing one with the same name.
func (u *unpacker) make(d directory, leaf string, h *tar.Header, at attributes, content io.Reader) error {
	was, err := u.clearWay(d, leaf, h)
	if err != nil {
		return err
	}
	if was && h.Typeflag == tar.TypeLink { // a link to itself
		return nil
	}
	if was {
		u.fresh[u.entry(d.ino, leaf)] = struct{}{}
		return u.dress(d, leaf, at, true)
	}
	if err := u.budget.file(max(h.Size, 0)); err != nil {
		return err
	}
	u.fresh[u.entry(d.ino, leaf)] = struct{}{}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return u.regular(d, leaf, h.Size, at, content)
	case tar.TypeLink:
		return u.hardLink(d, leaf, h.Linkname)
	case tar.TypeDir:
		err = unix.Mkdirat(d.fd, leaf, 0o700)
	case tar.TypeSymlink:
		err = unix.Symlinkat(h.Linkname, d.fd, leaf)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		err = u.node(d, leaf, h)
	default:
		return fmt.Errorf("an image cannot have entries of type %q", h.Typeflag)
	}
	if err != nil {
		return err
	}
	return u.dress(d, leaf, at, h.Typeflag == tar.TypeDir)
}

// rootEntry sets the attributes of the tree's root.
func (u *unpacker) rootEntry(at attributes) error {
	d, err := u.open("")
	if err != nil {
		return err
	}
	defer unix.Close(d.fd)
	return u.dress(d, ".", at, true)
}

// clearWay removes an existing file with an entry's name. It keeps a directory that is to be a directory, and a file
// that the entry calls a hard link to itself.
func (u *unpacker) clearWay(d directory, leaf string, h *tar.Header) (stays bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(d.fd, leaf, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if h.Typeflag == tar.TypeDir && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return true, nil
	}
	if h.Typeflag == tar.TypeLink {
		same, err := u.sameFile(h.Linkname, &st)
		if same || err != nil {
			return same, err
		}
	}
	return false, u.remove(d, leaf, true)
}

// finish sets the times of the directories, and returns notes for people.
func (u *unpacker) finish(ctx context.Context) ([]string, error) {
	u.forget()
	d, err := u.open("")
	if err != nil {
		return nil, fmt.Errorf("set times of directories: %w", err)
	}
	defer unix.Close(d.fd)
	if err := u.setTimes(ctx, d, "."); err != nil {
		return nil, fmt.Errorf("set times of directories: %w", err)
	}
	return u.tally.notes(), nil
}
