package compare

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/store"

	"golang.org/x/sys/unix"
)

// Kinds of change of a file.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"  // other bytes, or another type
	Mode    = "mode"     // the same bytes, other permissions
	Shared  = "together" // the file did not change, but shares a chunk with one that did
)

// FileChange is a file that differs between two versions, or that a node fetches as part of a changed chunk.
type FileChange struct {
	Path   string // without a leading slash; "": inodes and directories
	Change string
	Was    int64 // bytes of the file before
	Is     int64
	Fetch  int64 // stored bytes of the new chunks that are counted for this file
}

// Result describes what a node that has one version fetches for another. Sizes are bytes as stored.
type Result struct {
	Files   []FileChange // sorted by fetched bytes, most first
	Root    int64        // bytes of new chunks
	Index   int64        // bytes of new index pages and index root
	Kernel  int64
	Drivers int64 // bytes of new driver archives, for a node whose NICs are not known
	Pack    int64 // bytes of the boot pack for all hardware, without the pieces that the other version's pack has
	Whole   int64 // bytes of all chunks of the second version
}

// Versions compares two versions of the store. It also returns the trees of both.
func Versions(
	ctx context.Context,
	d *store.Dir,
	from, to image.Manifest,
) (out Result, was, is *imagefs.Tree, err error) {
	if was, err = imagefs.OpenTree(ctx, d, from); err == nil {
		is, err = imagefs.OpenTree(ctx, d, to)
	}
	if err != nil {
		return out, nil, nil, fmt.Errorf("compare versions: %w", err)
	}
	c := comparison{was: was, is: is, fetch: map[string]int64{}, change: map[string]string{}}
	if err = c.objects(ctx, d, from, to); err == nil {
		err = c.files()
	}
	if err != nil {
		return out, nil, nil, fmt.Errorf("compare versions: %w", err)
	}
	c.share()
	return c.result(), was, is, nil
}

type comparison struct {
	was, is *imagefs.Tree
	out     Result
	fresh   []store.Use       // chunks of the second version that the first does not have
	change  map[string]string // by path
	fetch   map[string]int64
}

// objects adds up the bytes of the objects that only the second version has.
func (c *comparison) objects(ctx context.Context, d *store.Dir, from, to image.Manifest) error {
	has := map[chunk.ID]bool{}
	if err := d.UsesOf(ctx, from, func(u store.Use) { has[u.ID] = true }); err != nil {
		return err
	}
	sent := map[chunk.ID]bool{}
	for _, x := range to.AllDrivers() {
		sent[x.Object] = true
	}
	seen := map[chunk.ID]bool{}
	return d.UsesOf(ctx, to, func(u store.Use) {
		size := u.Size
		if size < 0 {
			size, _ = d.Stat(u.ID)
		}
		if u.Part == store.PartChunk && !seen[u.ID] {
			c.out.Whole += size
		}
		if has[u.ID] || seen[u.ID] {
			return
		}
		seen[u.ID] = true
		switch {
		case u.Part == store.PartKernel:
			c.out.Kernel += size
		case u.Part == store.PartDrivers && sent[u.ID]:
			c.out.Drivers += size
		case u.Part == store.PartIndex:
			c.out.Index += size
		case u.Part == store.PartChunk:
			c.out.Root += size
			c.fresh = append(c.fresh, u)
		}
	})
}

// files finds the files that differ.
func (c *comparison) files() error {
	for _, f := range c.was.Files() {
		if _, ok := c.is.Find(f.Path); !ok && f.Path != "" {
			c.change[f.Path] = Removed
		}
	}
	for _, f := range c.is.Files() {
		old, ok := c.was.Find(f.Path)
		switch {
		case f.Path == "":
		case !ok:
			c.change[f.Path] = Added
		case f.Mode&unix.S_IFMT != old.Mode&unix.S_IFMT:
			c.change[f.Path] = Changed
		case f.Dir:
		default:
			same, err := c.same(old, f)
			if err != nil {
				return err
			}
			if !same {
				c.change[f.Path] = Changed
			} else if f.Mode != old.Mode {
				c.change[f.Path] = Mode
			}
		}
	}
	return nil
}

// same reports whether two files have the same bytes. It does not read parts that lie in the same chunk at the same
// offset.
func (c *comparison) same(a, b imagefs.File) (bool, error) {
	if kind := int(a.Mode) & unix.S_IFMT; a.Size != b.Size || kind != unix.S_IFREG && kind != unix.S_IFLNK {
		return a.Size == b.Size, nil
	}
	if a.Target != "" || b.Target != "" {
		x, err := c.was.Content(a)
		if err != nil {
			return false, err
		}
		y, err := c.is.Content(b)
		return bytes.Equal(x, y), err
	}
	for done := int64(0); done < a.Size; {
		x, xAt, err := c.was.Reader.Entry(a.Data + done)
		if err != nil {
			return false, err
		}
		y, yAt, err := c.is.Reader.Entry(b.Data + done)
		if err != nil {
			return false, err
		}
		inX, inY := a.Data+done-xAt, b.Data+done-yAt // offsets in the chunks
		n := min(a.Size-done, int64(x.RawSize)-inX, int64(y.RawSize)-inY)
		if x.ID != y.ID || inX != inY && !x.ID.IsZero() {
			one, two := make([]byte, n), make([]byte, n)
			if _, err := c.was.Reader.ReadAt(one, a.Data+done); err != nil {
				return false, err
			}
			if _, err := c.is.Reader.ReadAt(two, b.Data+done); err != nil {
				return false, err
			}
			if !bytes.Equal(one, two) {
				return false, nil
			}
		}
		done += n
	}
	return true, nil
}

// share divides the stored bytes of each new chunk among the changed files in it, in proportion to their raw bytes.
// If no file in the chunk changed, it divides them among all files in it.
func (c *comparison) share() {
	for _, u := range c.fresh {
		data, _ := c.is.In(u.Start, u.Raw)
		var mine []imagefs.File
		for _, f := range data {
			if c.change[f.Path] != "" && !f.Dir {
				mine = append(mine, f)
			}
		}
		if len(mine) == 0 {
			mine = slices.DeleteFunc(data, func(f imagefs.File) bool { return f.Dir })
		}
		total := int64(0)
		for _, f := range mine {
			total += overlap(f, u)
		}
		left := u.Size
		for _, f := range mine {
			part := u.Size * overlap(f, u) / total
			c.fetch[f.Path] += part
			left -= part
		}
		if len(mine) > 0 {
			c.fetch[mine[0].Path] += left
			continue
		}
		c.fetch[""] += u.Size
	}
}

// overlap returns how many bytes of a chunk belong to a file.
func overlap(f imagefs.File, u store.Use) int64 {
	start, end := int64(f.Start)*chunk.BlockSize, int64(f.Start+f.Blocks)*chunk.BlockSize
	return min(end, u.Start+u.Raw) - max(start, u.Start)
}

func (c *comparison) result() Result {
	for path := range c.fetch {
		if c.change[path] == "" {
			c.change[path] = Shared
		}
	}
	for path, change := range c.change {
		f := FileChange{Path: path, Change: change, Fetch: c.fetch[path]}
		if old, ok := c.was.Find(path); ok && path != "" {
			f.Was = old.Size
		}
		if now, ok := c.is.Find(path); ok && path != "" {
			f.Is = now.Size
		}
		c.out.Files = append(c.out.Files, f)
	}
	slices.SortFunc(c.out.Files, func(a, b FileChange) int {
		return cmp.Or(cmp.Compare(b.Fetch, a.Fetch), cmp.Compare(a.Path, b.Path))
	})
	return c.out
}
