package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/command"
)

// Machine is a running machine: this one, or another over ssh. Fill copies its root with the file systems that belong
// to it, except what must not be copied (see omissions). An interrupted copy continues.
type Machine struct {
	Remote string   // "root@pilot", "root@pilot:/srv/tree" for a tree below /; "": this machine
	SSH    []string // program that connects to the machine, with its arguments; none: ssh
	Root   string   // the tree on this machine; "": /
	Choice Choice
}

// ownParts are directories that belong to an image even if they are separate file systems.
var ownParts = []string{"/boot", "/opt", "/srv", "/usr", "/usr/local", "/var", "/var/lib"}

// Key is the machine's name.
func (m Machine) Key() string {
	if m.Remote == "" {
		return "host-" + short(m.root())
	}
	return "ssh-" + short(m.Remote)
}

// State is "": a running machine changes all the time.
func (m Machine) State(context.Context) (string, error) { return "", m.Choice.check() }

func (m Machine) root() string {
	if m.Root == "" {
		return "/"
	}
	return m.Root
}

// Fill copies the machine.
func (m Machine) Fill(ctx context.Context, p Place, progress func(Progress)) (Made, error) {
	made := Made{Kind: "host", Name: "this machine"}
	r := rsync{root: m.root(), single: true, choice: m.Choice}
	if r.root != "/" {
		made.Name = r.root
	}
	var err error
	if m.Remote != "" {
		made.Kind, made.Name = "ssh", m.Remote
		progress(Progress{Note: "asking " + m.Remote})
		err = m.ask(ctx, &r)
	} else {
		r.parts = ownFileSystems(r.root)
	}
	if err != nil {
		return made, fmt.Errorf("%s: %w", made.Name, err)
	}
	copyAll := r.run
	if !r.tar {
		progress(Progress{Note: "listing the files of " + made.Name})
	} else {
		progress(Progress{Note: made.Name + " has no rsync: copying with tar, which begins again if it is interrupted"})
		copyAll = func(ctx context.Context, p Place, progress func(Progress)) ([]string, error) {
			return m.fillTar(ctx, p, r, progress)
		}
	}
	omitted, err := copyAll(ctx, p, progress)
	if err != nil {
		return made, fmt.Errorf("copy %s: %w", made.Name, err)
	}
	made.Notes, err = settleIn(p.Root)
	made.Notes = append(omitted, made.Notes...)
	if r.tar {
		made.Notes = append(
			made.Notes,
			made.Name+" has no rsync: it was copied with tar; with rsync on it an interrupted copy goes on",
		)
	}
	return made, err
}

// ownFileSystems lists those of ownParts that are mount points below a root and not in memory.
func ownFileSystems(root string) []string {
	var out []string
	var top unix.Stat_t
	if unix.Stat(root, &top) != nil {
		return nil
	}
	for _, part := range ownParts {
		var st, above unix.Stat_t
		dir := filepath.Join(root, part)
		if unix.Lstat(dir, &st) == nil && unix.Stat(filepath.Dir(dir), &above) == nil &&
			st.Mode&unix.S_IFMT == unix.S_IFDIR &&
			st.Dev != above.Dev {
			out = append(out, part)
		}
	}
	return out
}

// probeCmd is a script that runs on the machine before the copy. It prints the user ID, whether the machine has rsync
// or else GNU tar and find, and which directories are separate file systems.
const probeCmd = `id -u; if command -v rsync >/dev/null; then echo rsync; elif tar --version 2>/dev/null | grep -q GNU && find --version 2>/dev/null | grep -q GNU
then echo tar; else echo none; fi; for d in %s; do if mountpoint -q "$d" 2>/dev/null; then echo "$d"; fi; done`

// ask runs the probe script on the remote machine.
func (m Machine) ask(ctx context.Context, r *rsync) error {
	host, root, _ := strings.Cut(m.Remote, ":")
	if host == "" || strings.HasPrefix(host, "-") || strings.ContainsAny(m.Remote, " \t\n'\"\\$`;&|<>") {
		return errors.New("want a machine as ssh knows it, such as root@pilot")
	}
	if root == "" {
		root = "/"
	}
	shell := m.SSH
	if len(shell) == 0 {
		shell = []string{"ssh"}
	}
	path, err := exec.LookPath(shell[0])
	if err != nil {
		return fmt.Errorf("%s is not installed: install it (Debian, Ubuntu: package openssh-client)", shell[0])
	}
	args := append(append([]string{}, shell[1:]...), host, fmt.Sprintf(probeCmd, strings.Join(ownParts, " ")))
	cmd := exec.CommandContext(ctx, path, args...)
	var out bytes.Buffer
	var problem tail
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, &out, &problem
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("ssh: %w: %s", command.Ended(ctx, err), problem.text())
	}
	lines := strings.Fields(out.String())
	switch {
	case len(lines) < 2:
		return fmt.Errorf("its shell printed %q instead of the output of the probe script", out.String())
	case lines[0] != "0":
		return errors.New("only root can read all of a machine: log in as root there (root@...)")
	case lines[1] == "none":
		return errors.New(
			"it has neither rsync nor tar and find of GNU: install rsync there (Debian, Ubuntu, Fedora: package rsync)",
		)
	}
	r.tar = lines[1] == "tar"
	r.from, r.shell, r.root = host, shell, root
	if root == "/" {
		r.parts = lines[2:]
	}
	return nil
}
