package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"pando/internal/bench"
	"pando/internal/blockdev"
)

// rivalNodes is how many nodes a rival is measured with. It sends each node all that the node asks for, so more of them
// take as much longer as there are more, and what that would be can be computed.
const rivalNodes = 10

// rivals are other ways to the same root: by programs that people use, on the same links, with the same reads.
// Their costs are of W, like ours.
func rivals() []system {
	return []system{
		{
			name:     "nfs",
			what:     "nfs-ganesha and libnfs, NFS 4, files",
			programs: []string{"ganesha.nfsd"},
			helper:   "nfsread",
			most:     rivalNodes,
			cost:     0.5,
			serve:    serveNFS,
			attach:   func(ctx context.Context, n *node) (bench.Root, error) { return n.nfs(ctx) },
		},
		{
			name:     "nbd",
			what:     "nbdkit, the raw image; the lab's own client on the node, whose processor time is not counted",
			programs: []string{"nbdkit"},
			most:     rivalNodes,
			cost:     0.5,
			serve:    serveRawNBD,
			attach:   func(ctx context.Context, n *node) (bench.Root, error) { return n.nbd(ctx) },
		},
		{
			name:     "nbd-squash",
			what:     "nbdkit, squashfs-zstd; nbdfuse and squashfuse on the node",
			programs: []string{"nbdkit", "nbdfuse", "squashfuse", makesSquashfs},
			most:     rivalNodes,
			cost:     1.2,
			serve:    serveSquashNBD,
			attach:   func(ctx context.Context, n *node) (bench.Root, error) { return n.squash(ctx) },
		},
		{
			name:     "torrent",
			what:     "aria2 and opentracker, the image whole as squashfs-zstd by BitTorrent",
			programs: []string{"aria2c", "opentracker", makesSquashfs},
			most:     rivalNodes,
			cost:     0.55,
			shared:   true,
			serve:    serveTorrent,
			attach:   func(ctx context.Context, n *node) (bench.Root, error) { return n.bittorrent(ctx) },
		},
	}
}

// check says what a system lacks on this machine. bin is where this program and its helpers are.
func (s system) check(bin string) error {
	if s.helper != "" {
		if _, err := os.Stat(filepath.Join(bin, s.helper)); err != nil {
			return fmt.Errorf("%s: %w (make bench-storm makes it)", s.name, err)
		}
	}
	for _, p := range s.programs {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%s: %w (scripts/install-packages rivals)", s.name, err)
		}
	}
	return nil
}

// rawFile is the root as a file, which is written once.
func (m *material) rawFile(ctx context.Context) (string, error) {
	file := filepath.Join(m.scratch, strings.TrimPrefix(string(m.version), "sha256:")+".img")
	return file, bench.Once(file, func(tmp string) error {
		dev, err := blockdev.Open(
			ctx,
			onDisk{m.store},
			blockdev.Options{Index: m.manifest.Root.Index, Size: m.manifest.Root.Size},
		)
		if err != nil {
			return err
		}
		defer dev.Close()
		out, err := os.Create(tmp)
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(
			out,
			onlyReader{io.NewSectionReader(deviceReader{ctx, dev}, 0, dev.Size())},
			make([]byte, 1<<20),
		)
		return errors.Join(err, out.Close())
	})
}

// deviceReader is a device without a context in its calls.
type deviceReader struct {
	ctx context.Context
	dev *blockdev.Device
}

func (d deviceReader) ReadAt(p []byte, off int64) (int, error) {
	if err := d.dev.ReadAt(d.ctx, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// onlyReader hides WriterTo, so that the caller's buffer is used.
type onlyReader struct{ io.Reader }

// makesSquashfs is the program that makes one.
const makesSquashfs = "mksquashfs"

// squashfs is the root as people send it whole: squashfs, zstd at its usual level for that.
func (m *material) squashfs(ctx context.Context) (string, error) {
	raw, err := m.rawFile(ctx)
	if err != nil {
		return "", err
	}
	file := strings.TrimSuffix(raw, ".img") + ".squashfs"
	return file, bench.Once(file, func(tmp string) error {
		tree, err := m.tree(ctx)
		if err != nil {
			return err
		}
		return bench.Run(
			ctx,
			"nice",
			makesSquashfs,
			tree,
			tmp,
			"-comp",
			"zstd",
			"-Xcompression-level",
			"15",
			"-b",
			"128K",
			"-quiet",
			"-no-progress",
		)
	})
}
