package imagefs

import (
	"bytes"
	"os"
	"testing"

	"pando/internal/chunk"
)

func FuzzErofs(f *testing.F) {
	for _, name := range []string{"testdata/small.erofs"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := OpenErofs(bytes.NewReader(b))
		if err != nil {
			return
		}
		files, _, err := e.Files()
		if err != nil {
			return
		}
		extents := make([]chunk.Extent, len(files))
		for i, file := range files {
			extents[i] = chunk.Extent{Start: file.Start, Size: file.Size, Name: file.Path}
		}
		if e.Size() < 1<<30 {
			_, _ = chunk.Split(e.Size(), extents, chunk.DefaultChunkSize)
		}
	})
}
