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
func (m *machine) configure(ctx context.Context) (string, error) {
	if err := m.extend(ctx); err != nil {
		return "", err
	}
	root, err := rootdir.Open(m.at.root)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if m.assigned().LockRoot {
		if _, err := root.Edit("/etc/shadow", lockRoot); err != nil {
			return "", fmt.Errorf("lock root's password: %w", err)
		}
	}
	masked, err := root.Edit("/etc/fstab", maskFstab)
	if err != nil {
		return "", fmt.Errorf("mask lines of fstab: %w", err)
	}
	files := append(withResolver(m.assigned().Files, m.lease), m.answer.Secrets...)
	run, err := rootdir.Open("/") // where /run still is
	if err != nil {
		return "", err
	}
	defer run.Close()
	problems := m.assigned().Problems
	m.runFiles = nil
	for _, f := range slices.Concat(files, m.parts.RunFiles(m.lease.Interface), extensionFiles(m.extensions.On)) {
		to := root
		if strings.HasPrefix(f.Path, "/run/") {
			to = run
			m.runFiles = append(m.runFiles, f.Path)
		}
		switch err := to.Put(f); {
		case errors.Is(err, unix.ENOSPC):
			return "", err
		case err != nil:
			problems = append(problems, err.Error())
		}
	}
	for _, old := range lacking(m.stale, m.runFiles) {
		_ = os.Remove(old) // of the boot before; it may be gone
	}
	for _, p := range problems {
		m.event(trace.Event{Stage: trace.Config, Kind: trace.Info, Message: "without " + p,
			Hint: "`pando config render` shows what a node gets, `pando node sync` brings it to a running one"})
	}
	m.settleCache(ctx)
	if err := m.leaveSession(); err != nil {
		return "", err
	}
	message := fmt.Sprintf("%d files", len(files))
	if masked {
		message += ", lines of fstab masked"
	}
	message += m.extendedText()
	return message, nil
}

// leaveSession leaves what the agent has to know.
func (m *machine) leaveSession() error {
	s := rundir.Session{Boot: m.bootID(), Node: m.assigned().Node, MAC: m.mac(), Version: m.assigned().Version,
		Control: m.config.Control, ServerKey: m.config.ServerKey, Origin: m.origin, Interface: m.lease.Interface,
		Until: m.assigned().RecordUntil, TrustKeys: m.config.TrustKeys, Hardware: m.hardware(), RunFiles: m.runFiles,
		Block: m.at.block, Device: m.at.device, Former: m.former, Writes: m.writes, Kept: m.kept}
	if p := m.channel.session.Load(); p != nil {
		s.Session = *p
	}
	return rundir.WriteJSON(rundir.Dir, rundir.SessionName, 0o600, s)
}

// lacking are the items of a list that another has not.
func lacking(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
