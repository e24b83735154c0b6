package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/identity"
)

// SiteConfig describes a server.
type SiteConfig struct {
	Net  *Net
	Bin  string   // directory of the programs pando and pando-init
	Data string   // data directory; its path must be short enough for a unix socket
	Log  string   // file that the server's output is appended to
	DHCP string   // "own", "proxy" or "off"
	Args []string // further arguments of `pando serve`
	Env  []string // additional environment variables of the server, NAME=VALUE
}

// Site is a `pando serve` that runs in a Net, and its API.
type Site struct {
	Config SiteConfig
	API    *api.Client

	cmd  *exec.Cmd
	done chan struct{} // closed when the server has ended
}

// StartSite starts a server and waits until it answers. The caller must call Close.
func StartSite(ctx context.Context, c SiteConfig) (*Site, error) {
	s := &Site{Config: c, API: api.OverSocket(filepath.Join(c.Data, "pando.sock"))}
	if err := os.MkdirAll(c.Data, 0o755); err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		if s.done != nil { // it runs but does not answer
			err = errors.Join(err, s.Close())
		}
		return nil, err
	}
	return s, nil
}

// Start starts the server of a site whose server does not run.
func (s *Site) Start(ctx context.Context) error {
	c := s.Config
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	defer log.Close()
	args := append([]string{"serve", "--data", c.Data, "--interface", BridgeName, "--dhcp", c.DHCP}, c.Args...)
	s.cmd = c.Net.Command(context.Background(), filepath.Join(c.Bin, "pando"), args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.Env = append(os.Environ(), c.Env...)
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	s.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait() // the log says how it ended
		close(done)
	}(s.cmd, s.done)
	if err := s.wait(ctx); err != nil {
		return errors.Join(err, s.Kill()) // the caller gets no reference to it
	}
	return nil
}

// wait returns when the server answers.
func (s *Site) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := s.API.Status(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf(
				"the server ended at once; its log is %s:\n%s",
				s.Config.Log,
				Console{s.Config.Log}.Tail(10),
			)
		case <-ctx.Done():
			return fmt.Errorf(
				"the server does not answer: %w; its log is %s:\n%s",
				err,
				s.Config.Log,
				Console{s.Config.Log}.Tail(10),
			)
		case <-tick.C:
		}
	}
}

// PID returns the server's process id.
func (s *Site) PID() int { return s.cmd.Process.Pid }

// Signal sends a signal to the server. unix.SIGSTOP makes a server that does not answer and does not refuse
// connections.
func (s *Site) Signal(sig unix.Signal) error { return s.cmd.Process.Signal(sig) }

// Kill ends the server at once.
func (s *Site) Kill() error {
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.done
	return nil
}

// stopTimeout is how long a server may take to end; beside emulated machines it can take more than 15 s.
const stopTimeout = time.Minute

// Close asks the server to end, and kills it if it does not end in time.
func (s *Site) Close() error {
	s.API.Close()
	if err := s.cmd.Process.Signal(unix.SIGTERM); err != nil {
		return nil // it has ended
	}
	select {
	case <-s.done:
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("the server did not end within %s of SIGTERM", stopTimeout), s.Kill())
	}
}

// HostKey returns the ssh host key of a node of this site. It is derived from the site's secret, so it is known before
// the node has ever booted.
func (s *Site) HostKey(node string) (ssh.PublicKey, error) {
	keys, err := identity.Open(filepath.Join(s.Config.Data, "keys"))
	if err != nil {
		return nil, err
	}
	_, line := keys.HostKey(node)
	key, _, _, _, err := ssh.ParseAuthorizedKey(line)
	return key, err
}

// WaitNode waits until good returns true for the node's record, and returns the record. It polls every half second,
// because an event may arrive before the record changes.
func (s *Site) WaitNode(ctx context.Context, node string, good func(api.Node) bool) (api.Node, error) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := s.API.Node(ctx, node)
		if err == nil && good(n) {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return n, fmt.Errorf("node %s: %w; %s", node, context.Cause(ctx), describe(n, err))
		case <-tick.C:
		}
	}
}

func describe(n api.Node, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case n.Boot == nil:
		return fmt.Sprintf("it is %s and has not booted", n.State)
	case n.Boot.Failure != "":
		return fmt.Sprintf("its boot %s is at stage %s: %s (%s)", n.Boot.ID, n.Boot.Stage, n.Boot.Failure, n.Boot.Hint)
	}
	return fmt.Sprintf("its boot %s is at stage %s", n.Boot.ID, n.Boot.Stage)
}

// Address returns the address that a MAC has leased.
func (s *Site) Address(ctx context.Context, mac fleet.MAC) (netip.Addr, error) {
	leases, err := s.API.Leases(ctx)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, l := range leases {
		if l.MAC == mac && !l.Bad {
			return l.Addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no lease of %s", mac)
}
