package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/google/go-containerregistry/pkg/v1"
)

// layer applies a layer to the tree. It checks both digests: that of the stored bytes, and that of the unpacked ones.
func (u *unpacker) layer(ctx context.Context, l *ociLayer, bar *bar) error {
	f, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer f.Close()
	stored, raw := newHashing(io.LimitReader(f, l.desc.Size+1)), newHashing(nil)
	stored.each = bar.add
	z, err := decompress(ctx, packed{stored, u.budget})
	if err != nil {
		return err
	}
	raw.r = z
	if err := u.archive(ctx, raw); err != nil {
		return errors.Join(err, z.Close())
	}
	if err := z.Close(); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stored); err != nil { // some programs write bytes after the end
		return err
	}
	if stored.n != l.desc.Size {
		return fmt.Errorf("it has %d bytes, not %d", stored.n, l.desc.Size)
	}
	if err := stored.is(l.desc.Digest); err != nil {
		return err
	}
	return raw.is(l.diffID)
}

// hashing is a reader that computes the SHA-256 of what was read.
type hashing struct {
	r   io.Reader
	sum interface {
		io.Writer
		Sum([]byte) []byte
	}
	n    int64
	each func(n int64) // nil: not called
}

func newHashing(r io.Reader) *hashing { return &hashing{r: r, sum: sha256.New()} }

func (h *hashing) Read(b []byte) (int, error) {
	n, err := h.r.Read(b)
	_, _ = h.sum.Write(b[:n]) // a hash never returns an error
	h.n += int64(n)
	if h.each != nil {
		h.each(int64(n))
	}
	return n, err
}

// is returns an error if the digest differs from want. An empty want is not checked.
func (h *hashing) is(want v1.Hash) error {
	if want.Hex == "" {
		return nil
	}
	if want.Algorithm != "sha256" {
		return fmt.Errorf("digest %s: only sha256 can be checked", want)
	}
	if got := hex.EncodeToString(h.sum.Sum(nil)); got != want.Hex {
		return &DigestError{Got: "sha256:" + got, Want: want.String()}
	}
	return nil
}

// DigestError means that bytes do not match their digest.
type DigestError struct {
	Got, Want string // "sha256:..."
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("its bytes have the digest %s, not %s: they were changed or damaged", e.Got, e.Want)
}

// bar adds up the progress of several goroutines, and reports it from one at a time.
type bar struct {
	mu          sync.Mutex
	done, total int64
	text        string
	progress    func(Progress)
}

func (b *bar) add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = min(b.done+n, b.total)
	b.progress(Progress{Done: b.done, Total: b.total, Note: b.text})
}

func (b *bar) note(text string) {
	b.mu.Lock()
	b.text = text
	b.mu.Unlock()
	b.add(0)
}
