package testkit

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/store"
	"path/filepath"
)

// T is the part of a test that the helpers need.
type T interface {
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Helper()
	Skip(args ...any)
	TempDir() string
}

// Program returns bytes that compress like a program.
func Program(seed uint64, size int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for b.Len() < size {
		b.WriteString([]string{"push", "call", "ret\n", "mov\t", "%rax,", "\x00\x00"}[rng.IntN(6)])
	}
	return b.Bytes()[:size]
}

// StoreRoot puts an EROFS file system with these files into a store. It skips the test if mkfs.erofs is not installed.
func StoreRoot(t T, dir *store.Dir, files map[string][]byte) image.Root {
	t.Helper()
	if _, err := exec.LookPath("mkfs.erofs"); err != nil {
		t.Skip("mkfs.erofs is not installed (Debian package erofs-utils)")
	}
	tree, raw := t.TempDir(), filepath.Join(t.TempDir(), "root.erofs")
	for name, data := range files {
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("mkfs.erofs", "-Enoinline_data", raw, tree).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.erofs: %v\n%s", err, out)
	}
	root, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	return image.Root{
		FileSystem: "erofs",
		Index:      StoreChunks(t, dir, root),
		Size:       int64(len(root)),
		ChunkSize:  chunk.DefaultChunkSize,
	}
}

// StoreChunks cuts a file system into chunks, stores them and returns the index.
func StoreChunks(t T, dir *store.Dir, root []byte) chunk.ID {
	t.Helper()
	ctx := t.Context()
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := dir.Lock(ctx, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	w := dir.NewWriter()
	defer w.Close()
	var entries []chunk.Entry
	var id chunk.ID
	put := func(stored []byte) {
		if id, _, err = w.Put(ctx, stored); err != nil {
			t.Fatal(err)
		}
	}
	for rest := root; len(rest) > 0; rest = rest[min(len(rest), chunk.DefaultChunkSize):] {
		raw := rest[:min(len(rest), chunk.DefaultChunkSize)]
		e := chunk.Entry{RawSize: len(raw)}
		stored, codec := enc.Encode(raw)
		if e.Codec = codec; codec != chunk.Zero {
			put(stored)
			e.ID, e.StoredSize = id, len(stored)
		}
		entries = append(entries, e)
	}
	index, err := chunk.NewIndex(entries, chunk.DefaultChunkSize, enc)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(index.Pages, index.Root) {
		put(page)
	}
	if err := w.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	return id
}
