package initrd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/rootdir"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// configure makes the root this node's: config files, the few edits, units and drop-ins in /run.
func (g *settings) configure(ctx context.Context) (string, error) {
	if err := g.extend(ctx); err != nil {
		return "", err
	}
	root, err := rootdir.Open(g.rootDevice.at.root)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if g.timeline.assigned().LockRoot {
		if _, err := root.Edit("/etc/shadow", lockRoot); err != nil {
			return "", fmt.Errorf("lock root's password: %w", err)
		}
	}
	masked, err := root.Edit("/etc/fstab", maskFstab)
	if err != nil {
		return "", fmt.Errorf("mask lines of fstab: %w", err)
	}
	files := append(withResolver(g.timeline.assigned().Files, g.network.lease), g.registration.answer.Secrets...)
	run, err := rootdir.Open("/") // where /run still is
	if err != nil {
		return "", err
	}
	defer run.Close()
	problems := g.timeline.assigned().Problems
	g.runFiles = nil
	for _, f := range slices.Concat(files, g.unitFiles(g.network.lease.Interface), extensionFiles(g.extensions.On)) {
		to := root
		if strings.HasPrefix(f.Path, "/run/") {
			to = run
			g.runFiles = append(g.runFiles, f.Path)
		}
		switch err := to.Put(f); {
		case errors.Is(err, unix.ENOSPC):
			return "", err
		case err != nil:
			problems = append(problems, err.Error())
		}
	}
	for _, old := range lacking(g.stale, g.runFiles) {
		_ = os.Remove(old) // of the boot before; it may be gone
	}
	for _, p := range problems {
		g.timeline.event(trace.Event{Stage: trace.Config, Kind: trace.Info, Message: "without " + p,
			Hint: "`pando config render` shows what a node gets, `pando node sync` brings it to a running one"})
	}
	g.cacheDisk.settleCache(ctx)
	if err := g.leaveSession(); err != nil {
		return "", err
	}
	message := fmt.Sprintf("%d files", len(files))
	if masked {
		message += ", lines of fstab masked"
	}
	message += g.extendedText()
	return message, nil
}

// leaveSession leaves what the agent has to know.
func (g *settings) leaveSession() error {
	s := rundir.Session{Boot: g.timeline.bootID(), Node: g.timeline.assigned().Node, MAC: g.network.mac(), Version: g.timeline.assigned().Version,
		Control: g.timeline.config.Control, ServerKey: g.timeline.config.ServerKey, Origin: g.timeline.origin, Interface: g.network.lease.Interface,
		Until: g.timeline.assigned().RecordUntil, TrustKeys: g.timeline.config.TrustKeys, Hardware: g.registration.hardware(), RunFiles: g.runFiles,
		Block: g.rootDevice.at.block, Device: g.rootDevice.at.device, Former: g.former, Writes: g.rootMount.writes, Kept: g.fallback.kept}
	if p := g.timeline.channel.session.Load(); p != nil {
		s.Session = *p
	}
	return rundir.WriteJSON(rundir.Dir, rundir.SessionName, 0o600, s)
}

// lacking are the items of a list that another has not.
func lacking(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
