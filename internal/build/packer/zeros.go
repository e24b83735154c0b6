package packer

import (
	"context"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/store"
	"pando/internal/trace"
)

// WithoutZeros removes blocks of zeros from recordings of one version. Neither packs nor chunks contain them, so they
// must not count when recordings are compared with packs.
func WithoutZeros(ctx context.Context, d *store.Dir, m image.Manifest, recordings []Recording) ([]Recording, error) {
	root, err := imagefs.Open(ctx, d, m)
	if err != nil {
		return nil, err
	}
	out := make([]Recording, len(recordings))
	for i, r := range recordings {
		out[i].Booted, out[i].Beyond = r.Booted, r.Beyond
		for _, read := range r.Reads {
			if out[i].Reads, err = appendStored(root, out[i].Reads, read); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// appendStored appends the parts of a read that are stored in objects.
func appendStored(r *imagefs.Reader, reads []trace.Read, read trace.Read) ([]trace.Read, error) {
	for at, end := int64(read.Start), min(int64(read.End()), r.Size()/chunk.BlockSize); at < end; {
		e, start, err := r.Entry(at * chunk.BlockSize)
		if err != nil {
			return nil, err
		}
		next := min(end, (start+int64(e.RawSize))/chunk.BlockSize)
		last := len(reads) - 1
		switch {
		case e.Codec == chunk.Zero:
		case at > int64(read.Start) && last >= 0 && reads[last].End() == uint64(at):
			reads[last].Blocks += uint32(next - at)
		default:
			reads = append(reads, trace.Read{Start: uint32(at), Blocks: uint32(next - at), At: read.At})
		}
		at = next
	}
	return reads, nil
}
