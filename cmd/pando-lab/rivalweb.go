package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"pando/internal/testkit"
)

// webPort is where the web server of rivals listens.
const webPort = 8481

// nginxConfig serves a directory as fast as it can be served.
const nginxConfig = `daemon off;
user root;
worker_processes auto;
pid %[1]s/pid;
error_log %[1]s/log;
events { worker_connections 4096; }
http {
	access_log off;
	sendfile on;
	tcp_nopush on;
	keepalive_requests 1000000;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	server { listen %[2]d; root %[3]s; }
}
`

// serveWeb starts nginx over the files that make makes.
func serveWeb(
	ctx context.Context,
	s *storm,
	m *material,
	file func(context.Context) (string, error),
) (stop func(), err error) {
	path, err := file(ctx)
	if err != nil {
		return nil, err
	}
	m.served = "http://" + net.JoinHostPort(stormNet.Addr().String(), strconv.Itoa(webPort)) + "/" + filepath.Base(path)
	dir := filepath.Join(s.dir, "nginx")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, webPort, m.scratch), 0o644); err != nil {
		return nil, err
	}
	return s.startServer(
		ctx,
		s.star.Server.Command(context.Background(), "nginx", "-c", config, "-e", filepath.Join(dir, "log")),
		"nginx",
		webPort,
	)
}

func serveRaw(ctx context.Context, s *storm, m *material) (stop func(), err error) {
	return serveWeb(ctx, s, m, m.rawFile)
}

func serveSquashfs(ctx context.Context, s *storm, m *material) (stop func(), err error) {
	return serveWeb(ctx, s, m, m.squashfs)
}

// startServer starts a rival's program beside the server and waits until it listens.
func (s *storm) startServer(ctx context.Context, c *exec.Cmd, name string, port int) (stop func(), err error) {
	p, err := startProgram(
		ctx,
		c,
		filepath.Join(s.dir, name+".out"),
		func() bool { return answers(ctx, s.star.Server, port) },
	)
	if err != nil {
		return nil, err
	}
	s.rival = p
	return func() {
		s.rival = nil
		p.stop()
	}, nil
}

// answers tells whether the server has somebody who listens.
func answers(ctx context.Context, from *testkit.Net, port int) bool {
	conn, err := from.Dial(ctx, "tcp", net.JoinHostPort(stormNet.Addr().String(), strconv.Itoa(port)))
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// whole fetches all of the image first, and then reads from memory: from the raw image, which is in this machine's page
// cache. What unpacking costs is left out, in the rival's favour.
func (n *node) whole(ctx context.Context) (root, error) {
	c := n.net.Command(ctx, "curl", "--silent", "--show-error", "--fail", "--output", "/dev/null", n.m.served)
	var told strings.Builder
	c.Stderr = &told
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("curl: %w: %s", err, strings.TrimSpace(told.String()))
	}
	r := &wholeRoot{}
	if state := c.ProcessState; state != nil {
		r.cpu = (state.UserTime() + state.SystemTime()).Seconds()
	}
	return r, r.open(ctx, n)
}

// wholeRoot is an image that is on the node.
type wholeRoot struct {
	*os.File
	cpu    float64  // of a program that has ended
	sender *program // goes on giving the image to others; nil: none
	dir    string   // goes away with it; "": none
}

func (r *wholeRoot) open(ctx context.Context, n *node) error {
	raw, err := n.m.rawFile(ctx)
	if err == nil {
		r.File, err = os.Open(raw)
	}
	return err
}

func (r *wholeRoot) taken(context.Context) (t taken, err error) {
	if r.sender != nil {
		t, err = cost(r.sender)
	}
	t.CPU += r.cpu
	return t, err
}

// Close lets go of it.
func (r *wholeRoot) Close() {
	if r.File != nil {
		_ = r.File.Close()
	}
	if r.sender != nil {
		r.sender.stop()
	}
	if r.dir != "" {
		_ = os.RemoveAll(r.dir) // what stays is seen in /dev/shm
	}
}
