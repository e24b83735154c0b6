package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// S3 is an S3 server of another project that runs on this machine.
type S3 struct {
	Endpoint       string // http://127.0.0.1:PORT
	Access, Secret string // keys of a user with all permissions
	log            string
	run            []*exec.Cmd
	stop           func() error // called before the programs are ended; may be nil
	net            *Net         // network that it runs in; nil: this process's
}

// ErrNoProgram means that a program is not installed; `make packages` installs it.
var ErrNoProgram = errors.New("not installed; see scripts/install-packages")

// StartVersityGW starts versitygw with a directory as its store. top is the directory of this module, where the program
// was built.
func StartVersityGW(ctx context.Context, top, dir string) (*S3, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	return startVersityGW(ctx, top, dir, nil, "127.0.0.1:"+port)
}

// StartVersityGWIn starts versitygw inside a Net, where machines reach it at the bridge's address.
func StartVersityGWIn(ctx context.Context, top, dir string, n *Net) (*S3, error) {
	return startVersityGW(ctx, top, dir, n, netip.AddrPortFrom(n.Addr.Addr(), 7070).String())
}

func startVersityGW(ctx context.Context, top, dir string, n *Net, addr string) (*S3, error) {
	program, err := FindVersityGW(top)
	if err != nil {
		return nil, err
	}
	data, meta := filepath.Join(dir, "data"), filepath.Join(dir, "meta")
	if err := errors.Join(os.MkdirAll(data, 0o755), os.MkdirAll(meta, 0o755)); err != nil {
		return nil, err
	}
	s := &S3{
		Endpoint: "http://" + addr,
		Access:   "pando",
		Secret:   "pando-secret",
		log:      filepath.Join(dir, "log"),
		net:      n,
	}
	args := []string{"--quiet", "--port", addr, "posix", "--sidecar", meta, data}
	c := exec.Command(program, args...)
	if n != nil {
		c = n.Command(context.Background(), program, args...)
	}
	c.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s.Access, "ROOT_SECRET_KEY="+s.Secret)
	if err := s.start(c); err != nil {
		return nil, err
	}
	return s, s.wait(ctx)
}

// FindVersityGW returns the path of the program; the error is ErrNoProgram.
func FindVersityGW(top string) (string, error) {
	for _, name := range []string{filepath.Join(top, "build/bin/versitygw"), "versitygw"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", fmt.Errorf("versitygw: %w", ErrNoProgram)
}

// freePort returns a port that is unused now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (s *S3) start(c *exec.Cmd) error {
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	s.run = append(s.run, c)
	return nil
}

// wait returns when the server listens.
func (s *S3) wait(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := s.dial(ctx)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(s.log)
			return errors.Join(fmt.Errorf("%s does not answer: %w\n%s", s.Endpoint, err, log), s.Close())
		case <-tick.C:
		}
	}
}

func (s *S3) dial(ctx context.Context) (net.Conn, error) {
	addr := strings.TrimPrefix(s.Endpoint, "http://")
	if s.net != nil {
		return s.net.Dial(ctx, "tcp", addr)
	}
	return (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
}

// Signal sends a signal to every process of the server.
func (s *S3) Signal(sig os.Signal) error {
	var errs []error
	for _, c := range s.run {
		errs = append(errs, c.Process.Signal(sig))
	}
	return errors.Join(errs...)
}

// Close ends the server's programs, the last one first.
func (s *S3) Close() (err error) {
	if s.stop != nil {
		err = s.stop()
	}
	for i := len(s.run) - 1; i >= 0; i-- {
		_ = s.run[i].Process.Kill()
		_ = s.run[i].Wait() // it was killed
	}
	s.run = nil
	return err
}
