package images

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"pando/internal/bench"
)

// dockerImage is the name of the tree's image in Docker.
const dockerImage = "pando-lab"

// docker is Docker's daemon, run from an unpacked directory. An installed one would serve the whole machine and change
// its firewall. It has its own directories and no network.
type docker struct {
	*bench.Program
	tools string // directory into which scripts/fetch-docker unpacked the programs
	run   string // short-lived files, such as its socket
	log   string
	err   io.Writer
}

// startDocker starts the daemon with its images below dir.
func startDocker(ctx context.Context, tools, dir string, stderr io.Writer) (*docker, error) {
	tools, err := filepath.Abs(tools) // dockerd does not start programs by a relative path
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	run, err := os.MkdirTemp("", "pando-lab-docker-") // not below dir: a socket's name has 107 bytes at most
	if err != nil {
		return nil, err
	}
	d := &docker{tools: tools, run: run, log: filepath.Join(dir, "log"), err: stderr}
	c := d.command(
		ctx,
		"unshare",
		"--mount",
		"--net",
		"dockerd",
		"--data-root",
		filepath.Join(dir, "data"),
		"--exec-root",
		filepath.Join(run, "exec"),
		"--pidfile",
		filepath.Join(run, "pid"),
		"--host",
		d.socket(),
		"--bridge=none",
		"--iptables=false",
		"--ip6tables=false",
	)
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	c.Cancel = func() error { return nil } // stop ends it with a signal instead, so that no mounts remain
	d.Program, err = bench.StartProgram(
		ctx,
		c,
		d.log,
		func() bool { return d.command(ctx, "docker", "version").Run() == nil },
	)
	if err != nil {
		os.RemoveAll(run)
		return nil, fmt.Errorf("docker of %s: %w\nhint: `scripts/fetch-docker %s` fetches it", tools, err, tools)
	}
	return d, nil
}

func (d *docker) socket() string { return "unix://" + filepath.Join(d.run, "socket") }

// command returns a command that uses Docker's programs and this daemon.
func (d *docker) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	for _, dir := range []string{"usr/bin", "usr/sbin"} {
		if file := filepath.Join(d.tools, dir, name); unix.Access(file, unix.X_OK) == nil {
			name = file
		}
	}
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(
		os.Environ(),
		"PATH="+filepath.Join(d.tools, "usr/bin")+":"+filepath.Join(d.tools, "usr/sbin")+":"+os.Getenv("PATH"),
		"DOCKER_HOST="+d.socket(),
	)
	return c
}

// importTree imports a tree as an image with one layer.
func (d *docker) importTree(ctx context.Context, tree string) error {
	c := d.command(ctx, "sh", "-c", `tar -C "$1" -cf - . | docker import - "$2" >/dev/null`, "sh", tree, dockerImage)
	c.Stderr = d.err
	return c.Run()
}

// cost returns what the daemon has used so far: seconds of processor time, and its largest resident memory in bytes.
func (d *docker) cost() (cpu float64, memory int64, err error) {
	return bench.ProcessCost(d.Cmd.Process.Pid)
}

// stop ends the daemon and removes its short-lived files.
func (d *docker) stop() {
	d.Program.Stop()
	os.RemoveAll(d.run)
}
