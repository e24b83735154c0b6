package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Guest is a root shell in a machine, over ssh.
type Guest struct {
	client *ssh.Client
}

// GuestConfig says how to log in to a machine.
type GuestConfig struct {
	Net     *Net
	Addr    netip.Addr
	Key     ssh.Signer    // root's key
	HostKey ssh.PublicKey // the only host key that is accepted
}

// sshRetry is the pause between attempts until sshd is up.
const sshRetry = 500 * time.Millisecond

// DialGuest logs in as root. It retries until sshd is up, and returns an error at once if the host key is wrong or the
// login is refused. The caller must call Close.
func DialGuest(ctx context.Context, c GuestConfig) (*Guest, error) {
	for {
		client, err := dialSSH(ctx, c)
		if err == nil {
			return &Guest{client}, nil
		}
		var wrong *WrongHostKeyError
		if errors.As(err, &wrong) || strings.Contains(err.Error(), "unable to authenticate") {
			return nil, fmt.Errorf("ssh to %s: %w", c.Addr, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("ssh to %s: %w (%w)", c.Addr, err, context.Cause(ctx))
		case <-time.After(sshRetry):
		}
	}
}

func dialSSH(ctx context.Context, c GuestConfig) (*ssh.Client, error) {
	address := netip.AddrPortFrom(c.Addr, 22).String()
	try, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	conn, err := c.Net.Dial(try, "tcp", address)
	if err != nil {
		return nil, err
	}
	// Under emulation a key exchange takes seconds, so it needs a time limit of its own.
	stop := context.AfterFunc(try, func() { conn.Close() })
	defer stop()
	sc, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User:              "root",
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(c.Key)},
		HostKeyCallback:   onlyKey(c.HostKey),
		HostKeyAlgorithms: []string{c.HostKey.Type()},
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return ssh.NewClient(sc, channels, requests), nil
}

// WrongHostKeyError means that another machine than the intended one answered.
type WrongHostKeyError struct{ Want, Got ssh.PublicKey }

func (e *WrongHostKeyError) Error() string {
	return fmt.Sprintf("host key is %s, expected %s", ssh.FingerprintSHA256(e.Got), ssh.FingerprintSHA256(e.Want))
}

func onlyKey(want ssh.PublicKey) ssh.HostKeyCallback {
	return func(_ string, _ net.Addr, got ssh.PublicKey) error {
		if !bytes.Equal(want.Marshal(), got.Marshal()) {
			return &WrongHostKeyError{want, got}
		}
		return nil
	}
}

// Run runs a shell command and returns its standard output without the last newline. For an exit status other than 0 it
// returns the output and an error with the standard error output.
func (g *Guest) Run(ctx context.Context, command string) (string, error) {
	s, err := g.client.NewSession()
	if err != nil {
		return "", fmt.Errorf("ssh session: %w", err)
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	var stdout, stderr bytes.Buffer
	s.Stdout, s.Stderr = &stdout, &stderr
	err = s.Run(command)
	out := strings.TrimRight(stdout.String(), "\n")
	if ctx.Err() != nil {
		return out, fmt.Errorf("%s: %w", command, context.Cause(ctx))
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", command, err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// Start runs a shell command and returns at once. wait returns what Run would return.
func (g *Guest) Start(ctx context.Context, command string) (wait func() (string, error)) {
	type result struct {
		out string
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := g.Run(ctx, command)
		done <- result{out, err}
	}()
	return func() (string, error) {
		r := <-done
		return r.out, r.err
	}
}

// Close closes the connection.
func (g *Guest) Close() error { return g.client.Close() }
