package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"pando/internal/command"
)

// fillTar copies a machine that has no rsync: find lists the files there, tar sends them, and they are unpacked here
// like an archive. An interrupted copy begins again.
func (m Machine) fillTar(
	ctx context.Context,
	p Place,
	r rsync,
	progress func(Progress),
) (omitted []string, err error) {
	if err := p.clear(); err != nil {
		return nil, err
	}
	hidden, err := m.hidden(ctx, r)
	if err != nil {
		return nil, err
	}
	b, err := newBudget(p.Root, Limits{})
	if err != nil {
		return nil, err
	}
	u, err := newUnpacker(p.Root, false, b)
	if err != nil {
		return nil, err
	}
	defer u.close()
	cmd := r.over(ctx, sendTree(r))
	var problem tail
	cmd.Stdin, cmd.Stderr = os.Stdin, &problem
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	bad := u.archive(ctx, packed{&counted{r: out, progress: progress}, b})
	_, _ = io.Copy(io.Discard, out) // tar must be able to end
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &exit) && exit.ExitCode() == changedFiles:
		err = nil
	case err != nil:
		err = fmt.Errorf("tar over ssh: %w: %s", command.Ended(ctx, err), problem.text())
	}
	if err = errors.Join(err, bad); err != nil {
		return nil, errors.Join(roomHint(fullDisk(err), p.Root), p.clear())
	}
	found, err := u.finish(ctx)
	return append(notes(hidden), found...), err
}

// changedFiles is tar's exit status for files that changed or vanished during the copy, as on a running machine.
const changedFiles = 1

// over returns a command that runs a script in the remote shell.
func (r rsync) over(ctx context.Context, script string) *exec.Cmd {
	args := append(append([]string{}, r.shell[1:]...), r.from, script)
	cmd := exec.CommandContext(ctx, r.shell[0], args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// sendTree returns the script that sends the tree. Its rules are those of Choice.rules in the same order: the first
// match decides.
func sendTree(r rsync) string {
	starts := "."
	for _, part := range r.parts {
		starts += " ." + part
	}
	var rules []string
	for _, rule := range r.choice.rules() {
		take, pattern := rule[0] == '+', rule[2:]
		test := "-regex " + quoted(`\.`+regexOf(pattern))
		if strings.HasSuffix(pattern, "/") {
			test = "-type d -regex " + quoted(`\.`+regexOf(strings.TrimRight(pattern, "/")))
		}
		do := "-prune"
		if take {
			do = "-print0"
		}
		rules = append(rules, test+" "+do)
	}
	return "export LC_ALL=C; cd " + quoted(
		r.root,
	) + " || exit 2; find " + starts + " -xdev -regextype posix-extended \\( " + strings.Join(
		rules,
		" -o ",
	) +
		" -o -print0 \\) 2>/dev/null | tar --null --no-recursion -T - --numeric-owner --xattrs " +
		"--xattrs-include='*' --format=posix -S --ignore-failed-read " +
		"--warning=no-file-changed --warning=no-file-removed --warning=no-file-ignored -cf -"
}

// regexOf turns a pattern of rsync into an extended regular expression.
func regexOf(pattern string) string {
	if above, ok := strings.CutSuffix(pattern, "/***"); ok { // a directory with everything below it
		return regexOf(above) + "(/.*)?"
	}
	out := regexp.QuoteMeta(pattern)
	out = strings.ReplaceAll(out, `\*\*`, ".*")
	return strings.ReplaceAll(out, `\*`, "[^/]*")
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// hidden counts, for each pattern, the files that it leaves out on the remote machine.
func (m Machine) hidden(ctx context.Context, r rsync) (map[string]int, error) {
	var script strings.Builder
	fmt.Fprintf(
		&script,
		"cd %s || exit 2\nlook() { p=$1; shift; for f; do if test -e \"$f\" || test -L \"$f\"; then echo \"$p\"; "+
			"return; fi; done; }\n",
		quoted(r.root),
	)
	for _, o := range omissions()[1:] {
		for _, p := range o.patterns {
			fmt.Fprintf(&script, "look %s .%s\n", quoted(p), strings.ReplaceAll(p, "**", "*"))
		}
	}
	cmd := r.over(ctx, script.String()+"true")
	var out bytes.Buffer
	var problem tail
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, &out, &problem
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("ssh: %w: %s", err, problem.text())
	}
	found := map[string]int{}
	for _, p := range strings.Fields(out.String()) {
		found[p] = 1
	}
	return found, nil
}
