package initrd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
	"pando/internal/link"
	"pando/internal/rootdir"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// configure writes this node's settings into the root: config files, edits of the image's files, and units and
// drop-ins in /run. It returns the files that it put into /run.
func (g *settings) configure(
	ctx context.Context, s *Session, lease link.Lease,
) (runFiles []string, text string, err error) {
	extensions, err := g.extend(ctx, s, lease)
	if err != nil {
		return nil, "", err
	}
	root, err := rootdir.Open(g.at.root)
	if err != nil {
		return nil, "", err
	}
	defer root.Close()
	if s.Assignment.LockRoot {
		if _, err := root.Edit("/etc/shadow", lockRoot); err != nil {
			return nil, "", fmt.Errorf("lock root's password: %w", err)
		}
	}
	disks := diskUnits(root)
	_, local := maskFstab("", disks...)
	masked, err := root.Edit("/etc/fstab", func(fstab string) (text string) {
		text, local = maskFstab(fstab, disks...)
		return text
	})
	if err != nil {
		return nil, "", fmt.Errorf("mask lines of fstab: %w", err)
	}
	if _, err := root.Edit("/etc/crypttab", maskCrypttab); err != nil {
		return nil, "", fmt.Errorf("mask lines of crypttab: %w", err)
	}
	files := append(withResolver(s.Assignment.Files, lease), s.Answer.Secrets...)
	run, err := rootdir.Open("/") // the initramfs's root, which still has /run
	if err != nil {
		return nil, "", err
	}
	defer run.Close()
	problems := s.Assignment.Problems
	units := g.unitFiles(lease.Interface, s.Assignment.RebootAfter)
	for _, f := range slices.Concat(files, units, maskUnits(disks, local), extensionFiles(extensions.On)) {
		to := root
		if strings.HasPrefix(f.Path, "/run/") {
			to = run
			runFiles = append(runFiles, f.Path)
		}
		switch err := to.Put(f); {
		case errors.Is(err, unix.ENOSPC):
			return nil, "", err
		case err != nil:
			problems = append(problems, err.Error())
		}
	}
	for _, old := range lacking(g.stale, runFiles) {
		_ = os.Remove(old) // a file of the previous boot; it may be gone
	}
	_ = os.Remove("/run/pando-booted") // also of the previous boot
	for _, p := range problems {
		g.timeline.event(trace.Event{Stage: trace.Config, Kind: trace.Info, Message: "without " + p,
			Hint: "`pando config render` shows what a node gets, `pando node sync` brings it to a running one"})
	}
	message := fmt.Sprintf("%d files", len(files))
	if masked {
		message += ", lines of fstab masked"
	}
	return runFiles, message + extendedText(extensions), nil
}

// leaving is what leaveSession writes for the agent.
type leaving struct {
	runFiles []string
	session  *Session
	lease    link.Lease
	root     Root
	hardware fleet.Hardware
	kept     *rundir.KeptMark
}

// leaveSession writes the session file for the agent.
func (g *settings) leaveSession(x leaving) error {
	cfg, as := g.timeline.config, &x.session.Assignment
	s := rundir.Session{Boot: g.timeline.bootID(), Node: as.Node, MAC: nodeMAC(cfg, x.lease), Version: as.Version,
		Control: cfg.Control, ServerKey: cfg.ServerKey, Origin: g.timeline.origin, Interface: x.lease.Interface,
		Until: as.RecordUntil, TrustKeys: cfg.TrustKeys, Hardware: x.hardware, RunFiles: x.runFiles,
		Block: g.at.block, Device: g.at.device, Former: g.former, Writes: x.root.Writes, Kept: x.kept}
	if p := g.timeline.channel.session.Load(); p != nil {
		s.Session = *p
	}
	return rundir.WriteJSON(rundir.Dir, rundir.SessionName, 0o600, s)
}

// lacking returns the items of list that other does not have.
func lacking(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
