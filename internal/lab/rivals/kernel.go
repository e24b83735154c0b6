package rivals

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pando/internal/bench"
	"pando/internal/testkit"
)

// guestRival is a way to attach a root by drivers of the node's own kernel.
type guestRival struct {
	name, what string
	serve      func(context.Context, bench.Host, *bench.Image) (bench.Served, error) // nil: it has no server
	// file that is the machine's disk; nil: no disk
	disk func(*bench.Image, context.Context) (string, error)
	args []string // arguments for init.sh
}

// mountOptions are the options of the NFS mount: version 4.1, the largest reads, four connections, and long attribute
// caching, because the tree does not change. More read-ahead than the kernel's 128 KiB makes no difference.
const mountOptions = "ro,vers=4.1,rsize=1048576,nconnect=4,noatime,actimeo=600"

// guestRivals returns the rivals that are measured beside Pando, in this order. A rival without a server has no
// network.
func guestRivals() []guestRival {
	nbd := func(fileSystem, readAhead string) []string {
		return []string{"lab.root=nbd", "lab.fs=" + fileSystem, "lab.ahead=" + readAhead}
	}
	nfs := func(root string) []string { return []string{"lab.root=" + root, "lab.mount=" + mountOptions} }
	return []guestRival{
		{
			name:  "nbd-squashfs",
			what:  "nbdkit and nbd-client, squashfs-zstd, 2 connections, 128 KiB read-ahead",
			serve: serveSquashNBD,
			args:  nbd("squashfs", "128"),
		},
		{
			name:  "nbd-squashfs-1024",
			what:  "the same with 1024 KiB read-ahead",
			serve: serveSquashNBD,
			args:  nbd("squashfs", "1024"),
		},
		{
			name:  "nbd-squashfs-32",
			what:  "the same with 32 KiB, which Pando has",
			serve: serveSquashNBD,
			args:  nbd("squashfs", "32"),
		},
		{
			name:  "nbd-erofs",
			what:  "nbdkit and nbd-client, raw EROFS, 2 connections, 128 KiB read-ahead",
			serve: serveRawNBD,
			args:  nbd("erofs", "128"),
		},
		{name: "nbd-erofs-32", what: "the same with 32 KiB read-ahead", serve: serveRawNBD, args: nbd("erofs", "32")},
		{
			name:  "nfs",
			what:  "nfs-ganesha and the kernel's client, NFS 4.1, files, 4 connections, 128 KiB read-ahead",
			serve: serveNFS,
			args:  nfs("nfs"),
		},
		{name: "nfs-squashfs", what: "the same, a squashfs-zstd on it, by a loop device (LTSP)", serve: serveSquashNFS,
			args: nfs("nfs-squashfs")},
		{
			name: "disk",
			what: "a local disk (virtio) with the same file system, no network",
			disk: (*bench.Image).RawFile,
			args: []string{"lab.root=disk"},
		},
	}
}

// start prepares what the rival's machines boot from, and returns how to start a machine. The caller must call stop
// afterwards.
func (r guestRival) start(
	ctx context.Context,
	h bench.Host,
	m *bench.Image,
	kernelArgs []string,
) (d testkit.Direct, stop func(), err error) {
	if d.Kernel, d.Initrd, err = rivalBoot(ctx, m); err != nil {
		return d, nil, err
	}
	if r.disk != nil {
		if d.Disk, err = r.disk(m, ctx); err != nil {
			return d, nil, err
		}
	}
	d.Args = slices.Concat(
		m.Manifest.CommandLine,
		kernelArgs,
		r.args,
		[]string{"lab.server=" + bench.Network.Addr().String()},
	)
	if r.serve == nil {
		return d, func() {}, nil
	}
	served, err := r.serve(ctx, h, m)
	return d, served.End, err
}

// bootedRival waits for the line that init.sh prints when the default target is reached, and returns the seconds since
// /init.
func bootedRival(ctx context.Context, g *testkit.Machine) (float64, error) {
	line, err := g.Console.Wait(ctx, "LAB booted [0-9.]+ [0-9.]+")
	if err != nil {
		return 0, err
	}
	var from, to float64
	if _, err := fmt.Sscanf(line[strings.Index(line, "LAB"):], "LAB booted %f %f", &from, &to); err != nil ||
		to <= from {
		return 0, fmt.Errorf("the console says %q: %w", line, err)
	}
	return to - from, nil
}

// serveSquashNFS starts nfs-ganesha with a directory that contains only the squashfs.
func serveSquashNFS(ctx context.Context, h bench.Host, m *bench.Image) (bench.Served, error) {
	return serveNFSOf(ctx, h, func() (string, error) {
		file, err := m.Squashfs(ctx)
		if err != nil {
			return "", err
		}
		dir := strings.TrimSuffix(file, ".squashfs") + ".nfs"
		return dir, bench.Once(dir, func(tmp string) error { return linkInto(tmp, file) })
	})
}

// squashName is the name of the squashfs on NFS, as in init.sh.
const squashName = "root.squashfs"

// linkInto makes a directory with a hard link to the file.
func linkInto(dir, file string) error {
	return errors.Join(os.Mkdir(dir, 0o755), os.Link(file, filepath.Join(dir, squashName)))
}

// Kernel lists the rivals that boot by drivers of the node's kernel.
func Kernel() (out []bench.KernelRival) {
	for _, r := range guestRivals() {
		out = append(out, bench.KernelRival{Name: r.name, What: r.what, Start: r.start, Booted: bootedRival})
	}
	return out
}
