package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// serveRaw lets the server send the raw image.
func serveRaw(ctx context.Context, _ *storm, m *material) (stop func(), err error) {
	file, err := m.rawFile(ctx)
	if err == nil {
		m.served, err = publish(m.store, file)
	}
	return func() {}, err
}

// serveSquashfs lets the server send the squashfs.
func serveSquashfs(ctx context.Context, _ *storm, m *material) (stop func(), err error) {
	file, err := m.squashfs(ctx)
	if err == nil {
		m.served, err = publish(m.store, file)
	}
	return func() {}, err
}

// whole fetches all of the image first, and then reads from memory: from the raw image, which is in this machine's page
// cache. What unpacking costs is left out, in the rival's favour.
func (n *node) whole(ctx context.Context) (root, error) {
	raw, err := n.m.rawFile(ctx)
	if err != nil {
		return nil, err
	}
	c := n.net.Command(ctx, "curl", "--silent", "--show-error", "--fail", "--output", "/dev/null", "--write-out", "%{size_download}",
		n.server+"/o/"+n.m.served.Name())
	var told strings.Builder
	c.Stderr = &told
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("curl: %w: %s", err, strings.TrimSpace(told.String()))
	}
	r := &wholeRoot{}
	if _, err := fmt.Sscan(string(out), &r.size); err != nil {
		return nil, fmt.Errorf("curl says %q: %w", out, err)
	}
	if state := c.ProcessState; state != nil {
		r.cpu = (state.UserTime() + state.SystemTime()).Seconds()
	}
	r.File, err = os.Open(raw)
	return r, err
}

// wholeRoot is an image that is on the node.
type wholeRoot struct {
	*os.File
	size int64
	cpu  float64
}

func (r *wholeRoot) taken(context.Context) (taken, error) {
	return taken{Received: map[string]int64{"server": r.size}, CPU: r.cpu}, nil
}

// Close lets go of it.
func (r *wholeRoot) Close() { _ = r.File.Close() }
