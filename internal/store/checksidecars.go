package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"pando/internal/chunk"
	"pando/internal/fleet"
)

// beside checks signature and provenance of a version against their sums. A version with a damaged one is still
// complete: its manifest is signed, and nothing depends on the other bytes.
func (c *checker) beside(ctx context.Context, v fleet.Digest) error {
	s, err := c.dir.sumsOf(v)
	if errors.Is(err, errSums) {
		return c.writeSums(v, fmt.Sprintf("%v (%s)", err, c.dir.sidecar(v, sumsSuffix)))
	}
	if err != nil {
		c.problem(v, chunk.ID{}, "%v", err)
		return nil
	}
	if c.Repair && len(s) == 0 {
		return c.writeSums(v, "")
	}
	for _, suffix := range []string{signatureSuffix, provenanceSuffix} {
		data, s, err := c.dir.damaged(v, suffix)
		if err == nil && data != nil {
			err = c.wrongSidecar(ctx, v, suffix, s, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wrongSidecar repairs a sidecar that does not match its sum, if possible.
func (c *checker) wrongSidecar(ctx context.Context, v fleet.Digest, suffix string, s sums, data []byte) error {
	what := map[string]string{signatureSuffix: "its signature file was changed, though one in it is good",
		provenanceSuffix: "its provenance was changed, the recipe and list of packages"}[suffix]
	file := c.dir.sidecar(v, suffix)
	if !c.Repair {
		c.problem(v, chunk.ID{}, "%s (%s)", what, file)
		return nil
	}
	for _, from := range c.From {
		got, err := from.Version(ctx, v)
		good := map[string][]byte{signatureSuffix: got.Signature, provenanceSuffix: got.Provenance}[suffix]
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || len(good) == 0 || s.wrong(suffix, good) {
			continue
		}
		c.fixed(v, chunk.ID{}, "%s (%s); taken from %s", what, file, from.Name())
		return c.dir.putSidecar(v, suffix, good)
	}
	if suffix == signatureSuffix {
		c.fixed(v, chunk.ID{}, "%s (%s); it stays as it is, and counts as written", what, file)
		return c.dir.putSidecar(v, suffix, data)
	}
	c.problem(
		v,
		chunk.ID{},
		"%s (%s); the version boots all the same, and `pando image pull` from a server or directory that has it, "+
			"or building it again, writes it",
		what,
		file,
	)
	return nil
}

// writeSums writes the sums of the present sidecars of a manifest.
func (c *checker) writeSums(v fleet.Digest, why string) error {
	if !c.Repair {
		c.problem(v, chunk.ID{}, "%s", why)
		return nil
	}
	s := sums{}
	for _, suffix := range sidecars {
		data, err := c.dir.readFile(c.dir.sidecar(v, suffix))
		if err == nil {
			s[suffix] = []string{hexSum(data)}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if why != "" {
		c.fixed(v, chunk.ID{}, "%s; they were written again", why)
	}
	return c.dir.putFile(c.dir.sidecar(v, sumsSuffix), s.encode())
}

// damaged returns the content of a sidecar that does not match its sums; nil if it matches or does not exist. Another
// process may be replacing both, sum first. So damaged reads the sidecar before the sums, and tries twice.
func (d *Dir) damaged(v fleet.Digest, suffix string) (data []byte, s sums, err error) {
	for range 2 {
		if data, err = d.readFile(d.sidecar(v, suffix)); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", d.sidecar(v, suffix), bare(err))
		}
		if s, err = d.sumsOf(v); errors.Is(err, errSums) || err == nil && !s.wrong(suffix, data) {
			return nil, nil, nil // changed sums were reported elsewhere
		}
		if err != nil {
			return nil, nil, err
		}
		d.askAgain(d.sidecar(v, suffix), d.sidecar(v, sumsSuffix))
	}
	return data, s, nil
}
