package rivals

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"pando/internal/bench"
	"pando/internal/chunk"
	"pando/internal/imagefs"
)

// filePart is the part of a read of the root that lies in one file.
type filePart struct {
	path   string
	offset int64 // offset in the file
	at     int   // offset in the read
	length int
}

// fileParts returns the parts of a read that lie in files. The rest is inodes and the super block, which a file server
// does not send in this form.
func fileParts(m *imagefs.Map, length int, off int64) (out []filePart) {
	for at := 0; at < length; {
		block := uint32((off + int64(at)) / chunk.BlockSize)
		step := min(length-at, chunk.BlockSize)
		f, ok := m.At(block)
		if !ok || f.Dir {
			at += step
			continue
		}
		from := int64(block-f.Start) * chunk.BlockSize
		whole := min(int64(length-at), int64(f.Blocks)*chunk.BlockSize-from)
		if n := min(whole, f.Size-from); n > 0 {
			out = append(out, filePart{f.Path, from, at, int(n)})
		}
		at += int(whole)
	}
	return out
}

// fileRoot is a root that is read file by file. Inodes and directories come from this machine's own copy. The rival's
// client fetches them only to open a file, so lookups without a read cost the rival nothing.
type fileRoot struct {
	files *imagefs.Map
	raw   *os.File
	read  func(path string, p []byte, off int64) error
}

func (r *fileRoot) ReadAt(p []byte, off int64) (int, error) {
	if n, err := r.raw.ReadAt(p, off); err != nil {
		return n, err
	}
	for _, part := range fileParts(r.files, len(p), off) {
		b := p[part.at:][:part.length]
		clear(b)
		if err := r.read(part.path, b, part.offset); err != nil {
			return 0, fmt.Errorf("%s: %w", part.path, err)
		}
	}
	return len(p), nil
}

func newFileRoot(
	ctx context.Context,
	n bench.Client,
	read func(path string, p []byte, off int64) error,
) (*fileRoot, error) {
	files, err := n.Image.Files(ctx)
	if err != nil {
		return nil, err
	}
	raw, err := n.Image.RawFile(ctx)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(raw)
	return &fileRoot{files: files, raw: f, read: read}, err
}

// readFile returns a function that reads a part of a file below a directory.
func readFile(dir string) func(path string, p []byte, off int64) error {
	return func(path string, p []byte, off int64) error {
		f, err := os.Open(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.ReadFull(io.NewSectionReader(f, off, int64(len(p))), p)
		return err
	}
}
