package rivals

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"pando/internal/bench"
)

// serveSquashNBD starts nbdkit with the squashfs.
func serveSquashNBD(ctx context.Context, h bench.Host, m *bench.Image) (bench.Served, error) {
	return serveNBD(ctx, h, m.Squashfs)
}

// attachSquashfs attaches the root as LTSP does, but with programs instead of the kernel's drivers: nbdfuse presents
// the export as a file, squashfuse mounts that file. The kernel reads both ahead by 128 KiB, as for a disk.
func attachSquashfs(ctx context.Context, n bench.Client) (bench.Root, error) {
	return attachSquashfsOf(
		ctx,
		n,
		&squashRoot{},
		"nbd://"+net.JoinHostPort(bench.Network.Addr().String(), strconv.Itoa(nbdPort)),
	)
}

// attachSquashfsOf attaches the squashfs of an NBD server.
func attachSquashfsOf(ctx context.Context, n bench.Client, r *squashRoot, uri string) (bench.Root, error) {
	err := mountSquashfs(ctx, n, r, uri)
	if err == nil {
		r.fileRoot, err = newFileRoot(ctx, n, readFile(r.mounts[1]))
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func mountSquashfs(ctx context.Context, n bench.Client, r *squashRoot, uri string) error {
	device, tree := filepath.Join(n.Dir, "device"), filepath.Join(n.Dir, "tree")
	for _, x := range []struct {
		dir  string
		argv []string
	}{
		{device, []string{"nbdfuse", "--readonly", "-C", strconv.Itoa(nbdConnections), device, uri}},
		{tree, []string{"squashfuse", "-f", filepath.Join(device, "nbd"), tree}},
	} {
		if err := os.MkdirAll(x.dir, 0o755); err != nil {
			return err
		}
		log := x.dir + ".log"
		p, err := bench.StartMount(ctx, n.Net, log, func() bool { return mounted(x.dir) }, x.argv[0], x.argv[1:]...)
		if p != nil {
			r.programs, r.mounts = append(r.programs, p), append(r.mounts, x.dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mounted reports whether something is mounted on a directory.
func mounted(dir string) bool {
	var in, above unix.Stat_t
	return errors.Join(unix.Stat(dir, &in), unix.Stat(filepath.Dir(dir), &above)) == nil && in.Dev != above.Dev
}

// squashRoot is a root whose files are read below a mount point.
type squashRoot struct {
	*fileRoot
	programs []*bench.Program
	mounts   []string
}

func (r *squashRoot) Usage(context.Context) (bench.Usage, error) {
	return bench.UsageOf(r.programs...)
}

// Close unmounts in reverse order, and ends the programs.
func (r *squashRoot) Close() {
	if r.fileRoot != nil {
		r.raw.Close()
	}
	for i := len(r.mounts) - 1; i >= 0; i-- {
		_ = unix.Unmount(r.mounts[i], unix.MNT_DETACH) // fails if it is not mounted
		r.programs[i].Stop()
	}
}
