package testkit

import (
	"context"
	"fmt"
	"strings"

	"pando/internal/fleet"
)

// Proof is the result of checks inside a guest.
type Proof struct {
	Lines []ProofLine
}

// ProofLine is the result of one check.
type ProofLine struct {
	What string // "host name"
	Got  string
	Want string // "": no particular value is expected
	Good bool
}

// Err returns nil if all checks succeeded.
func (p Proof) Err() error {
	var bad []string
	for _, l := range p.Lines {
		if !l.Good {
			bad = append(bad, fmt.Sprintf("%s is %q, expected %q", l.What, l.Got, l.Want))
		}
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(bad, "; "))
}

func (p *Proof) equal(what, got, want string) {
	p.Lines = append(p.Lines, ProofLine{what, got, want, got == want})
}

// mount checks that the root is an overlay. The places of its layers are shown for people only.
func (p *Proof) mount(got string) {
	p.Lines = append(p.Lines, ProofLine{"findmnt /", got, "overlay ...", strings.HasPrefix(got, "overlay ")})
}

// Prove checks inside a node that it is that node, that its root is an overlay over the version's read-only root, that
// systemd reports no failure, and that files have the image's checksums. It waits while systemd is "starting".
func Prove(
	ctx context.Context,
	g *Guest,
	node string,
	version fleet.Digest,
	c *Content,
	files []string,
) (Proof, error) {
	var p Proof
	for _, look := range []struct{ what, command, want string }{
		{"host name", "hostname", node},
		{"image version", `sed -n 's/.*"version":"\([^"]*\)".*/\1/p' /run/pando/session.json`, string(version)},
		{"systemd", "systemctl is-system-running --wait || true", "running"},
		{"failed units", "systemctl --failed --no-legend --plain | cut -d' ' -f1 | grep . || echo none", "none"},
		{"root's password", "passwd -S root | cut -d' ' -f2", "L"},
	} {
		got, err := g.Run(ctx, look.command)
		if err != nil {
			return p, err
		}
		p.equal(look.what, got, look.want)
	}
	root, err := g.Run(ctx, "findmnt -n -o FSTYPE,OPTIONS / | tr -s ' '")
	if err != nil {
		return p, err
	}
	p.mount(root)
	out, err := g.Run(ctx, "sha256sum "+strings.Join(files, " "))
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(out) {
		got, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want, err := c.Sum(path)
		if err != nil {
			return p, err
		}
		p.equal("sha256 of "+path, got, want)
	}
	return p, nil
}
