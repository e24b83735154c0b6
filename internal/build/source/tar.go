package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"pando/internal/systree"
)

// Tar is an archive of a root file system: plain, or compressed with gzip, zstd, bzip2 or xz.
type Tar struct {
	File   string
	Limits Limits
}

// Key is the file's path.
func (t Tar) Key() string {
	return "tar-" + place(t.File)
}

// place returns a hash of a file's absolute path, as part of another file's name.
func place(file string) string {
	abs, err := filepath.Abs(file)
	if err != nil {
		abs = file
	}
	return short(abs)
}

// short returns a hash of a text, as part of a file's name.
func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// State contains the file's size and time.
func (t Tar) State(context.Context) (string, error) {
	info, err := os.Stat(t.File)
	if err != nil {
		return "", fmt.Errorf("tarball: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("tarball %s: not a regular file; for a directory there is --from-dir", t.File)
	}
	return fmt.Sprintf("%d bytes of %d", info.Size(), info.ModTime().UnixNano()), nil
}

// Fill unpacks the archive. After an interruption it starts from the beginning.
func (t Tar) Fill(ctx context.Context, p Place, progress func(Progress)) (Made, error) {
	m := Made{Kind: "tar", Name: t.File}
	if err := p.clear(); err != nil {
		return m, err
	}
	if err := t.fill(ctx, p, progress, &m); err != nil {
		return m, errors.Join(fmt.Errorf("tarball %s: %w", t.File, err), p.clear())
	}
	return m, nil
}

func (t Tar) fill(ctx context.Context, p Place, progress func(Progress), m *Made) error {
	f, err := os.Open(t.File)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	b, err := newBudget(p.Root, t.Limits)
	if err != nil {
		return err
	}
	u, err := newUnpacker(p.Root, false, b)
	if err != nil {
		return err
	}
	defer u.close()
	digest := sha256.New()
	from := &counted{r: io.TeeReader(f, digest), total: info.Size(), progress: progress}
	if err := u.packedArchive(ctx, from); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, from); err != nil { // bytes after the archive's end count in its digest
		return err
	}
	m.Digest = "sha256:" + hex.EncodeToString(digest.Sum(nil))
	if now, err := os.Stat(t.File); err != nil || now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime()) {
		return errors.Join(err, unix.ESTALE, errors.New("it changed while it was read"))
	}
	if m.Notes, err = u.finish(ctx); err != nil {
		return err
	}
	return savedContainer(p.Root)
}

// savedContainer returns an error if the tree is an unpacked archive of a container image, whose layers are archives.
func savedContainer(tree string) error {
	for _, name := range []string{"oci-layout", "manifest.json"} {
		if systree.Exists(filepath.Join(tree, name)) && !systree.Exists(filepath.Join(tree, "etc")) {
			return errors.New("it is an archive of a container image (docker save, OCI layout): --from-oci takes it")
		}
	}
	return nil
}

// packedArchive unpacks an archive with any known compression into the tree.
func (u *unpacker) packedArchive(ctx context.Context, r io.Reader) error {
	z, err := decompress(ctx, packed{r, u.budget})
	if err != nil {
		return err
	}
	err = u.archive(ctx, z)
	return errors.Join(err, z.Close())
}

// counted reports how much of an archive was read.
type counted struct {
	r           io.Reader
	done, total int64
	progress    func(Progress)
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.done += int64(n)
	c.progress(Progress{Done: c.done, Total: c.total})
	return n, err
}
