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

// Swaps is a directory of swap space: a sparse file per boot of a node. Make it with OpenSwaps. The file's name has the
// node's boot and this machine's boot: writes are acknowledged in the page cache, so they survive the daemon and the
// server but not a power cut. After a reboot of this machine a file is never used again.
type Swaps struct {
	dir  *Dir   // the current connections, by node
	host string // boot ID of this machine
}

// ErrLost means that a node's swap space is gone or cannot be trusted.
var ErrLost = errors.New("the swap space of this boot is not here any more")

const swapSuffix = ".swap"

// OpenSwaps opens a directory of swap space. It removes files of earlier boots of this machine. If log is nil, nothing
// is logged.
func OpenSwaps(path string, log *slog.Logger) (*Swaps, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("swap space: boot ID of this machine: %w", err)
	}
	s := &Swaps{dir: Open(path, log), host: strings.TrimSpace(string(id))}
	return s, s.remove(func(_, _, host string) bool { return host != s.host })
}

func (s *Swaps) file(node, boot string) string {
	return filepath.Join(s.dir.path, node+"@"+boot+"@"+s.host+swapSuffix)
}

// remove removes the files for which gone returns true.
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

// Serve connects a client to the swap space of a boot until either side ends the connection, or another connection of
// that node replaces it. The client speaks NBD without a handshake; the export is called volume. With used, the boot
// gets its existing file, or ErrLost; else it gets a new file of size bytes.
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

// fresh makes a sparse file of zeros, and removes all other files of the node.
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

// Wait returns when no connection is served any more. The caller must end the contexts of Serve first.
func (s *Swaps) Wait() { s.dir.Wait() }

// Prune removes the files of boots for which wanted returns false, unless they are attached.
func (s *Swaps) Prune(wanted func(node, boot string) bool) error {
	return s.remove(func(node, boot, _ string) bool { return !s.dir.of(node).attached() && !wanted(node, boot) })
}
