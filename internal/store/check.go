package store

import (
	"context"
	"errors"
	"fmt"
	"os"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
)

// Report is what Check found.
type Report struct {
	Versions int   // whole ones: manifest, signature and all objects
	Objects  int64 // files in the store that are what their name says
	Bytes    int64 // their bytes
	Unused   int64 // of those objects, the ones that no version needs
	Problems []Problem
}

// Problem is one thing that is wrong, and what mends it.
type Problem struct {
	Version fleet.Digest // "" when it is not about a version
	Object  chunk.ID     // zero when it is not about an object
	Text    string
}

// String names what has the problem, then the problem.
func (p Problem) String() string {
	switch {
	case p.Version != "" && !p.Object.IsZero():
		return fmt.Sprintf("version %s: object %s: %s", p.Version, p.Object, p.Text)
	case p.Version != "":
		return fmt.Sprintf("version %s: %s", p.Version, p.Text)
	case !p.Object.IsZero():
		return fmt.Sprintf("object %s: %s", p.Object, p.Text)
	}
	return p.Text
}

// rebuild is what mends most problems.
const rebuild = "remove the file and build the image again, which writes only what is missing"

// Check reads the whole store: that each object is what its name says, that each manifest is signed by one
// of keys (none: signatures are not looked at), and that all it names is there. It changes nothing. each
// is told after every object how many bytes were read; it may be nil.
func (d *Dir) Check(ctx context.Context, keys []string, each func(bytes int64)) (Report, error) {
	c := &checker{dir: d, keys: keys, each: each, sizes: map[chunk.ID]int64{}, used: map[chunk.ID]bool{}}
	if err := c.objects(ctx); err != nil {
		return c.report, fmt.Errorf("check store: %w", err)
	}
	versions, err := d.Versions()
	if err != nil {
		return c.report, fmt.Errorf("check store: %w", err)
	}
	for _, v := range versions {
		if err := c.version(ctx, v); err != nil {
			return c.report, fmt.Errorf("check store: %w", err)
		}
	}
	c.report.Unused = int64(len(c.sizes) - len(c.used))
	return c.report, nil
}

type checker struct {
	dir    *Dir
	keys   []string
	each   func(int64)
	sizes  map[chunk.ID]int64 // good objects
	used   map[chunk.ID]bool
	report Report
}

func (c *checker) problem(v fleet.Digest, id chunk.ID, format string, args ...any) {
	c.report.Problems = append(c.report.Problems, Problem{v, id, fmt.Sprintf(format, args...)})
}

// objects reads every file below objects.
func (c *checker) objects(ctx context.Context) error {
	return c.dir.eachObject(ctx, func(id chunk.ID, ok bool, name string) error {
		if !ok {
			c.problem("", chunk.ID{}, "%s is no object; remove it", name)
			return ctx.Err()
		}
		b, err := c.dir.stored(ctx, id)
		var wrong *chunk.WrongBytesError
		switch {
		case errors.As(err, &wrong):
			c.problem("", id, "its %d bytes are not what was written; %s", wrong.Size, rebuild)
			return nil
		case err != nil && ctx.Err() == nil:
			c.problem("", id, "%v; %s", err, rebuild)
			return nil
		case err != nil:
			return err
		}
		c.sizes[id] = int64(len(b))
		c.report.Objects++
		c.report.Bytes += int64(len(b))
		if c.each != nil {
			c.each(c.report.Bytes)
		}
		return nil
	})
}

// version follows a manifest to all its objects.
func (c *checker) version(ctx context.Context, digest fleet.Digest) error {
	before := len(c.report.Problems)
	v, err := c.dir.GetVersion(digest)
	if err != nil && !errors.Is(err, os.ErrNotExist) || err != nil && v.Manifest == nil {
		c.problem(digest, chunk.ID{}, "%v", err)
		return ctx.Err()
	}
	var m image.Manifest
	if len(c.keys) > 0 {
		m, err = image.Verify(v.Manifest, v.Signature, c.keys...)
	} else {
		m, err = image.Decode(v.Manifest)
	}
	if err != nil {
		c.problem(digest, chunk.ID{}, "%v", err)
		return ctx.Err()
	}
	c.need(digest, m.Kernel.Object, m.Kernel.Size, "the kernel")
	for _, d := range m.Drivers {
		c.need(digest, d.Object, d.Size, "drivers "+d.Name)
	}
	if err := c.index(ctx, digest, m.Root); err != nil {
		return err
	}
	if len(c.report.Problems) == before {
		c.report.Versions++
	}
	return c.packs(ctx, v.Digest, m)
}

// need reports an object that is missing or has another size, and tells whether it is good.
func (c *checker) need(v fleet.Digest, id chunk.ID, size int64, what string) bool {
	got, ok := c.sizes[id]
	switch {
	case !ok:
		c.problem(v, id, "%s is missing or broken; build the image again", what)
		return false
	case size >= 0 && got != size:
		c.problem(v, id, "%s has %d bytes, the version says %d", what, got, size)
		return false
	}
	c.used[id] = true
	return true
}

// index follows the index of a root file system.
func (c *checker) index(ctx context.Context, v fleet.Digest, r image.Root) error {
	if !c.need(v, r.Index, -1, "the index root") {
		return nil
	}
	b, err := c.dir.Get(ctx, r.Index)
	if err != nil {
		return err
	}
	root, err := chunk.DecodeRoot(b)
	if err != nil {
		c.problem(v, r.Index, "%v", err)
		return nil
	}
	if root.RawSize() != r.Size {
		c.problem(v, r.Index, "the index covers %d bytes, the manifest says %d", root.RawSize(), r.Size)
	}
	for i, ref := range root.Pages {
		if !c.need(v, ref.ID, int64(ref.StoredSize), fmt.Sprintf("index page %d", i)) {
			continue
		}
		if b, err = c.dir.Get(ctx, ref.ID); err != nil {
			return err
		}
		page, err := root.DecodePage(i, b)
		if err != nil {
			c.problem(v, ref.ID, "%v", err)
			continue
		}
		for _, e := range page.Entries {
			if e.Codec != chunk.Zero {
				c.need(v, e.ID, int64(e.StoredSize), "a chunk")
			}
		}
	}
	return nil
}
