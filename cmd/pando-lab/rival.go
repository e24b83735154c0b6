package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/blockdev"
	"pando/internal/chunk"
	"pando/internal/store"
)

// rivalNodes is how many nodes a rival is measured with. It sends each node all that the node asks for, so more of them
// take as much longer as there are more, and what that would be can be computed.
const rivalNodes = 10

// rivals are other ways to the same root: by programs that people use, on the same links, with the same reads.
func rivals() []system {
	return []system{
		{name: "nbd", what: "nbdkit, the raw image", programs: []string{"nbdkit"}, most: rivalNodes, cost: 0.4, serve: serveNBD,
			attach: func(ctx context.Context, n *node) (root, error) { return n.nbd(ctx) }},
		{name: "ranges", what: "nbdkit's curl, ranges of the raw image by HTTP", programs: []string{"nbdkit"}, most: rivalNodes, cost: 0.4, serve: serveRaw,
			attach: func(ctx context.Context, n *node) (root, error) { return n.ranges(ctx) }},
		{name: "whole", what: "curl, the image whole as squashfs-zstd, then from memory", programs: []string{"curl", "mksquashfs"}, most: rivalNodes, cost: 0.4,
			serve: serveSquashfs, attach: func(ctx context.Context, n *node) (root, error) { return n.whole(ctx) }},
	}
}

// check says what a system lacks on this machine.
func (s system) check() error {
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
	return file, once(file, func(tmp string) error {
		dev, err := blockdev.Open(ctx, onDisk{m.store}, blockdev.Options{Index: m.manifest.Root.Index, Size: m.manifest.Root.Size})
		if err != nil {
			return err
		}
		defer dev.Close()
		out, err := os.Create(tmp)
		if err != nil {
			return err
		}
		_, err = io.CopyBuffer(out, onlyReader{io.NewSectionReader(deviceReader{ctx, dev}, 0, dev.Size())}, make([]byte, 1<<20))
		return errors.Join(err, out.Close())
	})
}

// once makes a file that is not there yet. One that was not finished gets no name.
func once(file string, write func(tmp string) error) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(file + ".new"); err != nil {
		return err
	}
	if err := write(file + ".new"); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
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

// squashfs is the root as people send it whole: squashfs, zstd at its usual level for that.
func (m *material) squashfs(ctx context.Context) (string, error) {
	raw, err := m.rawFile(ctx)
	if err != nil {
		return "", err
	}
	file := strings.TrimSuffix(raw, ".img") + ".squashfs"
	return file, once(file, func(tmp string) error {
		tree := tmp + ".tree"
		defer os.RemoveAll(tree)
		if err := command(ctx, "fsck.erofs", "--extract="+tree, "--preserve", raw); err != nil {
			return err
		}
		return command(ctx, "mksquashfs", tree, tmp, "-comp", "zstd", "-Xcompression-level", "15", "-b", "128K", "-quiet", "-no-progress")
	})
}

func command(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// publish makes a file something that the server sends: an object, by its digest. Nothing else knows of it.
func publish(dir *store.Dir, file string) (chunk.ID, error) {
	f, err := os.Open(file)
	if err != nil {
		return chunk.ID{}, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return chunk.ID{}, err
	}
	id, err := chunk.ParseID(fmt.Sprintf("sha256:%x", h.Sum(nil)))
	if err != nil {
		return id, err
	}
	if _, ok := dir.Stat(id); ok {
		return id, nil
	}
	path := dir.ObjectPath(id)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return id, err
	}
	if err := os.Link(file, path); err != nil {
		return id, fmt.Errorf("%w (--dir and --data have to be on one file system)", err)
	}
	return id, nil
}

// program is a program of a rival that runs.
type program struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// startProgram starts it and waits until ready says yes. What it says goes into a file.
func startProgram(ctx context.Context, c *exec.Cmd, log string, ready func() bool) (*program, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c.Stdout, c.Stderr = f, f
	if err := c.Start(); err != nil {
		return nil, err
	}
	p := &program{c, make(chan struct{})}
	go func() {
		_ = c.Wait() // how it ended stands in its log
		close(p.done)
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-p.done:
			return nil, fmt.Errorf("%s ended at once; its log is %s", c.Args[0], log)
		case <-ctx.Done():
			p.stop()
			return nil, context.Cause(ctx)
		}
	}
	return p, nil
}

func (p *program) stop() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}
