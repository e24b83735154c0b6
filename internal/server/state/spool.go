package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"pando/internal/api"
)

// SpoolDir is the spool's directory below the data directory.
const SpoolDir = "parcels"

// spoolFree is how many bytes must stay free on the disk of the data directory, so that the registry can write whatever
// nodes send.
const spoolFree = 1 << 30

// RoomEvery is the number of received bytes after which the free space is checked again.
const RoomEvery = 16 << 20

// Spool is a directory of files with the state of nodes. Each file is named after the id of its order. Only this
// server's user may read them, because kept files may contain keys.
type Spool struct {
	dir  string
	Free int64 // bytes that must stay free on the disk

	arriving sync.Map // ids of orders whose file is being received
}

func (p *Spool) path(id string) string { return filepath.Join(p.dir, id) }

// partSuffix is added to the name of a file that is still being received.
const partSuffix = ".new"

// take receives a file. The file gets its final name when it is complete and synced to disk.
func (p *Spool) take(id string, body io.Reader) (bytes int64, digest string, err error) {
	if _, busy := p.arriving.LoadOrStore(id, true); busy {
		return 0, "", api.NewError(api.TooMany, "this state is being sent already", "")
	}
	defer p.arriving.Delete(id)
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return 0, "", err
	}
	part := p.path(id) + partSuffix
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, "", p.room(err)
	}
	sum := sha256.New()
	for err == nil {
		if err = p.room(nil); err == nil {
			var n int64
			n, err = io.CopyN(io.MultiWriter(f, sum), body, RoomEvery)
			bytes += n
		}
	}
	if errors.Is(err, io.EOF) {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, p.path(id))
	}
	if err == nil {
		err = syncDir(p.dir)
	}
	if err != nil {
		return 0, "", errors.Join(p.room(err), os.RemoveAll(part))
	}
	return bytes, hex.EncodeToString(sum.Sum(nil)), nil
}

// room returns why a file cannot be written: failed, or an error that ends the order if there is not enough free space,
// because the disk will not have more while a node waits.
func (p *Spool) room(failed error) error {
	var st unix.Statfs_t
	if err := unix.Statfs(p.dir, &st); err != nil {
		return errors.Join(failed, fmt.Errorf("free space in %s: %w", p.dir, err))
	}
	free := int64(st.Bavail) * st.Bsize
	if free >= p.Free && !errors.Is(failed, syscall.ENOSPC) && !errors.Is(failed, syscall.EDQUOT) {
		return failed
	}
	return api.NewError(
		api.Conflict,
		fmt.Sprintf(
			"the server has no room for it: %d MB are free where its data directory is, and %d MB have to stay free",
			free/1e6,
			p.Free/1e6,
		),
		"make room there, then order the copy again",
	)
}

// sweep removes files that no order needs, and incomplete ones that are not being received. It reads the directory
// before it calls orders, so that a file that arrives meanwhile stays. orders returns the ids whose file is needed.
func (p *Spool) sweep(orders func() (map[string]bool, error)) error {
	found, err := os.ReadDir(p.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	needed, err := orders()
	for _, f := range found {
		id, part := strings.CutSuffix(f.Name(), partSuffix)
		if _, arrives := p.arriving.Load(id); err != nil || arrives || needed[id] && !part {
			continue
		}
		if err := os.Remove(p.path(f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
