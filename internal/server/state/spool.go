package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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

	mu       sync.Mutex
	arriving map[string]bool // ids of orders whose file is being received
}

func newSpool(dir string) *Spool {
	return &Spool{dir: dir, Free: spoolFree, arriving: map[string]bool{}}
}

func (p *Spool) path(id string) string { return filepath.Join(p.dir, id) }

// partSuffix is added to the name of a file that is still being received.
const partSuffix = ".new"

// arrived returns how many bytes of a file have been received, 0 if it is not being received.
func (p *Spool) arrived(id string) int64 {
	info, err := os.Stat(p.path(id) + partSuffix)
	if err != nil || !p.receiving(id) {
		return 0
	}
	return info.Size()
}

func (p *Spool) receiving(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.arriving[id]
}

// begin records that a file is being received. Only one file per order may be.
func (p *Spool) begin(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.arriving[id] {
		return api.NewError(api.TooMany, "this state is being sent already", "")
	}
	p.arriving[id] = true
	return nil
}

func (p *Spool) end(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.arriving, id)
}

// take receives a file. The file gets its final name when it is complete and synced to disk.
func (p *Spool) take(id string, body io.Reader) (bytes int64, digest string, err error) {
	if err := p.begin(id); err != nil {
		return 0, "", err
	}
	defer p.end(id)
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return 0, "", fmt.Errorf("directory of the spool: %w", err)
	}
	part := p.path(id) + partSuffix
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, "", p.explain(err)
	}
	sum := sha256.New()
	bytes, err = p.copy(io.MultiWriter(f, sum), body)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, p.path(id))
	}
	if err == nil {
		err = syncPath(p.dir)
	}
	if err != nil {
		return 0, "", errors.Join(p.explain(err), os.RemoveAll(part))
	}
	return bytes, hex.EncodeToString(sum.Sum(nil)), nil
}

// copy writes received bytes while there is enough free space.
func (p *Spool) copy(to io.Writer, from io.Reader) (bytes int64, err error) {
	for {
		if err := p.room(); err != nil {
			return bytes, err
		}
		n, err := io.CopyN(to, from, RoomEvery)
		bytes += n
		if errors.Is(err, io.EOF) {
			return bytes, nil
		}
		if err != nil {
			return bytes, err
		}
	}
}

// errNoRoom means that less than Spool.Free bytes would stay free.
var errNoRoom = errors.New("no room")

func (p *Spool) room() error {
	var st unix.Statfs_t
	if err := unix.Statfs(p.dir, &st); err != nil {
		return fmt.Errorf("free space in %s: %w", p.dir, err)
	}
	if int64(st.Bavail)*st.Bsize < p.Free {
		return errNoRoom
	}
	return nil
}

// explain converts the error of a full disk to one that ends the order: the disk will not have more space while a node
// waits.
func (p *Spool) explain(err error) error {
	if !errors.Is(err, errNoRoom) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	var st unix.Statfs_t
	_ = unix.Statfs(p.dir, &st) // on an error the message says 0
	return api.NewError(
		api.Conflict,
		fmt.Sprintf(
			"the server has no room for it: %d MB are free where its data directory is, and %d MB have to stay free",
			int64(st.Bavail)*st.Bsize/1e6,
			p.Free/1e6,
		),
		"make room there, then order the copy again",
	)
}

// open opens a completely received file.
func (p *Spool) open(id string) (*os.File, error) { return os.Open(p.path(id)) }

// sweep removes files that no order needs. It calls wanted, which returns the orders that may have a file, after it has
// read the directory, so that a file that arrives meanwhile stays.
func (p *Spool) sweep(ctx context.Context, wanted func(context.Context) (map[string]bool, error)) error {
	found, err := os.ReadDir(p.dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(found) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the spool: %w", err)
	}
	want, err := wanted(ctx)
	for _, f := range found {
		id, part := strings.CutSuffix(f.Name(), partSuffix)
		if err == nil && !p.receiving(id) && (part || !want[id]) {
			err = os.Remove(p.path(f.Name()))
		}
	}
	return err
}

// syncPath syncs a directory, which makes its file names durable.
func syncPath(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return errors.Join(f.Sync(), f.Close())
}
