package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// dnbd3Port is where dnbd3-server listens.
const dnbd3Port = 5003

// dnbd3 is not in Debian. Its two programs are named on the command line: dnbd3-server, and dnbd3-fuse, which makes
// a file of an image.
type dnbd3 struct{ server, client string }

// dnbd3Image is the image's name; the server finds revision 1 of it as a file with ".r1" at its end.
const dnbd3Image = "root"

// system is dnbd3 as a rival.
func (d dnbd3) system() system {
	return system{
		name:     "dnbd3",
		what:     "dnbd3, the raw image",
		programs: []string{d.server, d.client},
		most:     rivalNodes,
		cost:     0.5,
		serve:    d.serve,
		attach:   func(ctx context.Context, n *node) (root, error) { return d.attach(ctx, n) },
	}
}

func (d dnbd3) serve(ctx context.Context, s *storm, m *material) (stop func(), err error) {
	raw, err := m.rawFile(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.dir, "dnbd3")
	images := filepath.Join(dir, "images")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(images, 0o755)); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Link(raw, filepath.Join(images, dnbd3Image+".r1")),
		os.WriteFile(filepath.Join(dir, "alt-servers"), nil, 0o644),
		os.WriteFile(filepath.Join(dir, "server.conf"), fmt.Appendf(nil, "[dnbd3]\nbasePath=%s\nlistenPort=%d\n", images, dnbd3Port), 0o644)); err != nil {
		return nil, err
	}
	return s.startServer(
		ctx,
		s.star.Server.Command(context.Background(), d.server, "--nodaemon", "--config", dir),
		"dnbd3-server",
		dnbd3Port,
	)
}

func (d dnbd3) attach(ctx context.Context, n *node) (root, error) {
	dir := filepath.Join(n.dir, "dnbd3")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	p, err := startMount(
		ctx,
		n.net,
		dir+".log",
		func() bool { return mounted(dir) },
		d.client,
		"-f",
		"-h",
		stormNet.Addr().String(),
		"-i",
		dnbd3Image,
		"-r",
		"1",
		dir,
	)
	if err != nil {
		return nil, err
	}
	r := &dnbd3Root{program: p, dir: dir}
	if r.File, err = os.Open(filepath.Join(dir, "img")); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// dnbd3Root is the file that dnbd3-fuse has.
type dnbd3Root struct {
	*os.File
	program *program
	dir     string
}

func (r *dnbd3Root) taken(context.Context) (taken, error) { return cost(r.program) }

// Close unmounts it and ends the program.
func (r *dnbd3Root) Close() {
	if r.File != nil {
		_ = r.File.Close()
	}
	_ = unix.Unmount(r.dir, unix.MNT_DETACH) // it may not be mounted
	r.program.stop()
}
