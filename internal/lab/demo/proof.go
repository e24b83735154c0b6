package demo

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"pando/internal/testkit"
)

// proofTimeout bounds the check of one guest. On an emulated machine ssh takes seconds, and systemd may still be
// starting services.
const proofTimeout = 3 * time.Minute

// looked are the files whose checksums are compared: some that a boot reads and some that it does not.
var looked = []string{
	"/usr/bin/bash",
	"/usr/lib/systemd/systemd",
	"/usr/bin/perl",
	"/usr/lib/os-release",
	"/usr/sbin/sshd",
	"/var/lib/dpkg/status",
}

// report prints each node's timeline and proof. Its error lists what is wrong.
func (l *Demo) report(ctx context.Context, p *play) error {
	content, err := testkit.OpenContent(ctx, l.DataDir(), p.version)
	if err != nil {
		return err
	}
	defer content.Close()
	var bad error
	for _, c := range computers {
		l.Say("\n=== %s: timeline (pando boot show %s)\n", c.name, c.name)
		if err := l.pando(ctx, "boot", "show", c.name); err != nil {
			return err
		}
		l.Say("\n=== %s: proof, from inside over ssh", c.name)
		proof, err := l.prove(ctx, p, c, content)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		for _, line := range proof.Lines {
			l.Say("    %-4s %-32s %s", map[bool]string{true: "ok", false: "BAD"}[line.Good], line.What, line.Got)
		}
		if err := proof.Err(); err != nil {
			bad = errors.Join(bad, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return bad
}

func (l *Demo) prove(ctx context.Context, p *play, c computer, content *testkit.Content) (testkit.Proof, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, proofTimeout, fmt.Errorf("not proven within %s", proofTimeout))
	defer cancel()
	addr, err := p.site.Address(ctx, c.mac)
	if err != nil {
		return testkit.Proof{}, err
	}
	host, err := p.site.HostKey(c.name)
	if err != nil {
		return testkit.Proof{}, err
	}
	g, err := testkit.DialGuest(ctx, testkit.GuestConfig{Net: p.net, Addr: addr, Key: p.login.key, HostKey: host})
	if err != nil {
		return testkit.Proof{}, err
	}
	defer g.Close()
	return testkit.Prove(ctx, g, c.name, p.version, content, looked)
}

// login is the ssh key for root in the demo.
type login struct {
	file       string // private key
	authorized string // public half, as a line of authorized_keys
	key        ssh.Signer
}

// newLogin reads the demo's key, or creates it in the first run.
func newLogin(dir string) (login, error) {
	g := login{file: filepath.Join(dir, "id_ed25519")}
	b, err := os.ReadFile(g.file)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = makeKey(g.file)
	}
	if err != nil {
		return g, err
	}
	if g.key, err = ssh.ParsePrivateKey(b); err != nil {
		return g, fmt.Errorf("%s: %w", g.file, err)
	}
	g.authorized = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(g.key.PublicKey()))) + " demo"
	return g, nil
}

func makeKey(file string) ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "demo")
	if err != nil {
		return nil, err
	}
	b := pem.EncodeToMemory(block)
	return b, os.WriteFile(file, b, 0o600)
}

// lookIn prints how to reach what still runs.
func (l *Demo) lookIn(ctx context.Context, p *play) {
	pando := fmt.Sprintf("%s --data %s", filepath.Join(l.Bin, "pando"), l.DataDir())
	l.Say("\nIt goes on running. Look in:")
	l.Say("  %s node list", pando)
	l.Say("  %s watch", pando)
	var known strings.Builder
	for _, c := range computers {
		addr, err := p.site.Address(ctx, c.mac)
		if err != nil {
			continue
		}
		if key, err := p.site.HostKey(c.name); err == nil {
			fmt.Fprintf(&known, "%s %s", addr, ssh.MarshalAuthorizedKey(key))
		}
		l.Say("  ip netns exec %s ssh -i %s -o UserKnownHostsFile=%s root@%s   # %s",
			p.net.Name, p.login.file, l.knownHosts(), addr, c.name)
	}
	if err := os.WriteFile(l.knownHosts(), []byte(known.String()), 0o644); err != nil {
		l.Say("  (host keys could not be written: %v)", err)
	}
	l.Say("  tail -f %s", filepath.Join(l.runDir(), "pc001.console"))
	l.Say("End it with `make demo-stop`.")
}

// sayNext prints how to do the same with real machines.
func (l *Demo) sayNext() {
	l.Say("\nIn your own room, on the interface that the machines are on (docs/install.md):")
	l.Say("  make install && pando up --interface eth1        # then let a machine boot from the network")
	l.Say("Change what they boot: build, try it on one, roll it out (docs/operate.md):")
	l.Say("  pando image build debian --recipe debian:bookworm")
	l.Say("  pando node set node001 --image debian && pando node reboot node001")
	l.Say("  pando rollout start @default --image debian --watch")
}

func (l *Demo) knownHosts() string { return filepath.Join(l.Dir, "known_hosts") }
