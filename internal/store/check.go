package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
)

// Report is the result of Check.
type Report struct {
	Versions int   // complete versions: manifest, signature and all objects
	Objects  int64 // files in the store that match their names
	Bytes    int64 // bytes of Objects
	Unused   int64 // objects that no version needs
	Problems []Problem
	Fixed    []Problem // problems that were repaired, see Inspection.From
}

// Problem is one fault in the store, and what repairs it.
type Problem struct {
	Version fleet.Digest // "" if the problem concerns no version
	Object  chunk.ID     // zero if the problem concerns no object
	Text    string

	Start, Raw int64 // of a chunk: its range of bytes in the version's root; Raw 0: the object is no chunk
}

// String names the damaged version or object, then the problem.
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

// Inspection says what Inspect checks.
type Inspection struct {
	Keys []string          // one of them must have signed each manifest; none: signatures are not checked
	Each func(bytes int64) // called after every object with the number of bytes read; may be nil

	Versions []fleet.Digest // check these as well, even if their manifests are missing
	Only     bool           // check only Versions

	// From are the sources of missing or broken files. They are tried in order while the store's lock is held. A
	// broken object that no source has is removed, so that a build writes it again.
	From   []RepairSource
	Repair bool // false: nothing is changed
}

// Check reads the whole store. Each object must match its name, each manifest must be signed by one of keys (none:
// not checked), and everything that it names must exist. Check changes nothing. each is called after every object
// with the bytes read; it may be nil.
func (d *Dir) Check(ctx context.Context, keys []string, each func(bytes int64)) (Report, error) {
	return d.Inspect(ctx, Inspection{Keys: keys, Each: each})
}

// Inspect is Check for selected versions, or with repairs.
func (d *Dir) Inspect(ctx context.Context, i Inspection) (Report, error) {
	c := &checker{
		dir:        d,
		Inspection: i,
		sizes:      map[chunk.ID]int64{},
		used:       map[chunk.ID]bool{},
		bad:        map[chunk.ID]string{},
	}
	versions := i.Versions
	if !i.Only {
		if err := c.objects(ctx); err != nil {
			return c.report, fmt.Errorf("check store: %w", err)
		}
		has, err := d.Versions()
		if err != nil {
			return c.report, fmt.Errorf("check store: %w", err)
		}
		versions = append(slices.Clone(versions), has...)
	}
	slices.Sort(versions)
	for _, v := range slices.Compact(versions) {
		if err := c.version(ctx, v); err != nil {
			return c.report, fmt.Errorf("check store: %w", err)
		}
	}
	if err := c.rest(ctx); err != nil {
		return c.report, fmt.Errorf("check store: %w", err)
	}
	c.report.Unused = c.report.Objects
	for _, good := range c.used {
		if good {
			c.report.Unused--
		}
	}
	return c.report, nil
}

type checker struct {
	dir *Dir
	Inspection
	sizes  map[chunk.ID]int64  // sizes of good objects
	used   map[chunk.ID]bool   // objects that a version or boot pack names; true: the object is good
	bad    map[chunk.ID]string // faults of broken objects
	report Report
}

func (c *checker) problem(v fleet.Digest, id chunk.ID, format string, args ...any) {
	c.report.Problems = append(c.report.Problems, Problem{Version: v, Object: id, Text: fmt.Sprintf(format, args...)})
}

// objects reads every file below objects.
func (c *checker) objects(ctx context.Context) error {
	return c.dir.eachFile(ctx, func(f objectFile) error {
		if !f.ok {
			c.problem("", chunk.ID{}, "%s is no object; remove it", f.name)
			return nil
		}
		return c.read(ctx, f.id)
	})
}

// read reads an object once, and records whether it matches its name.
func (c *checker) read(ctx context.Context, id chunk.ID) error {
	if _, ok := c.sizes[id]; ok || c.bad[id] != "" {
		return nil
	}
	b, err := c.dir.stored(ctx, id)
	var wrong *chunk.WrongBytesError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &wrong):
		c.bad[id] = fmt.Sprintf("its %d bytes are not what was written", wrong.Size)
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		c.bad[id] = err.Error()
		return nil
	}
	c.good(id, int64(len(b)))
	return nil
}

func (c *checker) good(id chunk.ID, size int64) {
	c.sizes[id] = size
	c.report.Objects++
	c.report.Bytes += size
	if c.Each != nil {
		c.Each(c.report.Bytes)
	}
}

// rest reports broken objects that no version needs. The others were reported or repaired together with a version.
func (c *checker) rest(ctx context.Context) error {
	order := func(a, b chunk.ID) int { return bytes.Compare(a.Sum[:], b.Sum[:]) }
	for _, id := range slices.SortedFunc(maps.Keys(c.bad), order) {
		_, named := c.used[id]
		switch {
		case !c.Repair && !named:
			c.problem(
				"",
				id,
				"%s; nothing names it: remove the file, or let `pando store check --repair` do it",
				c.bad[id],
			)
			continue
		case !c.Repair:
			continue
		}
		if err := c.dir.removeObjects(ctx, id); err != nil {
			return errors.Join(fmt.Errorf("remove broken object %s: %w", id, err), ctx.Err())
		}
		if !named {
			c.fixed("", id, "%s; nothing names it, and it was removed", c.bad[id])
		}
	}
	return nil
}

// version checks all objects that a manifest leads to.
func (c *checker) version(ctx context.Context, digest fleet.Digest) error {
	before := len(c.report.Problems)
	m, err := c.manifest(ctx, digest)
	if err != nil {
		c.problem(digest, chunk.ID{}, "%v", err)
		return ctx.Err()
	}
	if !m.IsExtension() {
		if _, err := c.need(ctx, digest, Use{Part: PartKernel, ID: m.Kernel.Object, Size: m.Kernel.Size},
			"the kernel"); err != nil {
			return err
		}
	}
	for _, d := range m.Drivers {
		if _, err := c.need(ctx, digest, Use{Part: PartDrivers, ID: d.Object, Size: d.Size},
			"drivers "+d.Name); err != nil {
			return err
		}
	}
	if err := c.index(ctx, digest, m.Root); err != nil {
		return err
	}
	if len(c.report.Problems) == before {
		c.report.Versions++
	}
	if err := c.beside(ctx, digest); err != nil {
		return err
	}
	return c.packs(ctx, digest, m)
}

// manifest reads the manifest of a version, and repairs it if possible.
func (c *checker) manifest(ctx context.Context, digest fleet.Digest) (image.Manifest, error) {
	m, err := c.manifestHere(digest)
	if err == nil || !c.Repair {
		return m, err
	}
	got, from, ok := c.fetchVersion(ctx, digest)
	if !ok {
		return m, err
	}
	if _, put := c.dir.PutVersion(got); put != nil {
		return m, put
	}
	c.fixed(digest, chunk.ID{}, "%v; taken from %s", err, from)
	return c.manifestHere(digest)
}

func (c *checker) manifestHere(digest fleet.Digest) (image.Manifest, error) {
	v, err := c.dir.GetVersion(digest)
	if err != nil && !errors.Is(err, os.ErrNotExist) || err != nil && v.Manifest == nil {
		return image.Manifest{}, err
	}
	if len(c.Keys) > 0 {
		return image.Verify(v.Manifest, v.Signature, c.Keys...)
	}
	return image.Decode(v.Manifest)
}

// need reports an object that is missing, broken or has another size. It returns true if the object is good, or was
// repaired.
func (c *checker) need(ctx context.Context, v fleet.Digest, u Use, what string) (bool, error) {
	if err := c.read(ctx, u.ID); err != nil {
		return false, err
	}
	if _, ok := c.sizes[u.ID]; !ok && c.Repair {
		if err := c.repair(ctx, v, u, what); err != nil {
			return false, err
		}
	}
	got, ok := c.sizes[u.ID]
	c.used[u.ID] = ok
	p := Problem{Version: v, Object: u.ID, Start: u.Start, Raw: u.Raw}
	switch {
	case !ok && c.bad[u.ID] != "":
		p.Text = what + " is broken: " + c.bad[u.ID]
	case !ok:
		p.Text = what + " is missing"
	case u.Size >= 0 && got != u.Size:
		p.Text = fmt.Sprintf("%s has %d bytes, the version says %d", what, got, u.Size)
	default:
		return true, nil
	}
	c.report.Problems = append(c.report.Problems, p)
	return false, nil
}

// index checks the index of a root file system.
func (c *checker) index(ctx context.Context, v fleet.Digest, r image.Root) error {
	ok, err := c.need(ctx, v, Use{Part: PartIndex, ID: r.Index, Size: -1}, "the index root")
	if err != nil || !ok {
		return err
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
	start := int64(0)
	for i, ref := range root.Pages {
		if err := c.page(ctx, v, root, i, start); err != nil {
			return err
		}
		start += ref.RawSize
	}
	return nil
}

// page checks one page of an index, whose first chunk begins at start.
func (c *checker) page(ctx context.Context, v fleet.Digest, root *chunk.Root, i int, start int64) error {
	ref := root.Pages[i]
	u := Use{PartIndex, ref.ID, int64(ref.StoredSize), start, ref.RawSize}
	ok, err := c.need(ctx, v, u, fmt.Sprintf("index page %d", i))
	if err != nil || !ok {
		return err
	}
	b, err := c.dir.Get(ctx, ref.ID)
	if err != nil {
		return err
	}
	page, err := root.DecodePage(&c.dir.decoder, i, b)
	if err != nil {
		c.problem(v, ref.ID, "%v", err)
		return nil
	}
	for _, e := range page.Entries {
		if e.Codec != chunk.Zero {
			if _, err := c.need(ctx, v, Use{PartChunk, e.ID, int64(e.StoredSize), start, int64(e.RawSize)},
				"a chunk"); err != nil {
				return err
			}
		}
		start += int64(e.RawSize)
	}
	return nil
}
