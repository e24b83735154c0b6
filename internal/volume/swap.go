package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Swaps is a directory of swap space: a sparse file for each boot of a node that wants one. Make it with OpenSwaps.
//
// A file belongs to one boot of the node and to one boot of this machine; both are in its name. Writes are acknowledged
// when they are in this machine's page cache, which outlives the daemon and the server, but not a power cut. After a
// reboot of this machine the file is never used again, because pages may be missing.
type Swaps struct {
	dir  *Dir   // who has which, by node
	host string // boot of this machine
}

// ErrLost means that a node's swap space is gone or cannot be trusted.
var ErrLost = errors.New("the swap space of this boot is not here any more")

const swapSuffix = ".swap"

// OpenSwaps opens a directory, and removes from it what another boot of this machine has left. log nil: silent.
func OpenSwaps(path string, log *slog.Logger) (*Swaps, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("swap space: which boot of this machine is it: %w", err)
	}
	s := &Swaps{dir: Open(path, log), host: strings.TrimSpace(string(id))}
	return s, s.remove(func(_, _, host string) bool { return host != s.host })
}

func (s *Swaps) file(node, boot string) string {
	return filepath.Join(s.dir.path, node+"@"+boot+"@"+s.host+swapSuffix)
}

// remove removes the files that gone says of.
func (s *Swaps) remove(gone func(node, boot, host string) bool) error {
	files, err := filepath.Glob(filepath.Join(s.dir.path, "*"+swapSuffix))
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		id := strings.Split(strings.TrimSuffix(filepath.Base(f), swapSuffix), "@")
		if len(id) == 3 && gone(id[0], id[1], id[2]) {
			if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove swap space: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// Has reports whether the swap space of a node's boot is still usable.
func (s *Swaps) Has(node, boot string) bool {
	_, err := os.Stat(s.file(node, boot))
	return err == nil
}

// Serve connects a client to the swap space of a boot until either side ends it, or another connection of that node
// replaces it. The client speaks NBD without a handshake; the export is called volume. A boot that has written nothing
// gets a new file of size bytes; one that has (used) gets its file, or ErrLost.
func (s *Swaps) Serve(ctx context.Context, node, boot string, size int64, used bool, c net.Conn) error {
	s.dir.serving.Add(1)
	defer s.dir.serving.Done()
	v := s.dir.of(node)
	ctx, give, err := v.take(ctx)
	if err != nil {
		return err
	}
	defer give()
	endStale(filepath.Join(s.dir.path, node+".pid"), node+".sock")
	if used && !s.Has(node, boot) {
		return fmt.Errorf("node %s: %w", node, ErrLost)
	}
	if !used {
		if err := s.fresh(node, boot, size); err != nil {
			return fmt.Errorf("make swap space for node %s: %w", node, err)
		}
	}
	p, err := startDaemon(s.dir.path, node, s.dir.log,
		"--blockdev", "driver=file,node-name=volume,discard=unmap,filename="+filepath.Base(s.file(node, boot)),
		"--export", "type=nbd,id=export,node-name=volume,name=volume,writable=on")
	if err != nil {
		return err
	}
	return v.pass(ctx, p, c)
}

// fresh makes a file of zeros that takes no room, in place of all that the node has had.
func (s *Swaps) fresh(node, boot string, size int64) error {
	if err := os.MkdirAll(s.dir.path, 0o700); err != nil {
		return err
	}
	if err := s.remove(func(n, _, _ string) bool { return n == node }); err != nil {
		return err
	}
	f, err := os.OpenFile(s.file(node, boot), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// Remove deletes a node's swap space and its content.
func (s *Swaps) Remove(ctx context.Context, node string) error {
	_, give, err := s.dir.of(node).take(ctx)
	if err != nil {
		return err
	}
	defer give()
	endStale(filepath.Join(s.dir.path, node+".pid"), node+".sock")
	return s.remove(func(n, _, _ string) bool { return n == node })
}

// Wait returns when nothing is served any more. The caller ends the contexts of Serve first.
func (s *Swaps) Wait() { s.dir.Wait() }

// Prune removes the files of boots that are not wanted.
func (s *Swaps) Prune(wanted func(node, boot string) bool) error {
	return s.remove(func(node, boot, _ string) bool { return !s.dir.of(node).attached() && !wanted(node, boot) })
}
