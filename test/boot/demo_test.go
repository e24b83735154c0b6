package boot

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// demoTimeout bounds a whole demo including the build of its image from Debian's mirror.
const demoTimeout = 25 * time.Minute

// Ctrl-C during a boot leaves nothing behind. The image of the same recipe is used again.
func TestRealDemoInterruptedInABoot(t *testing.T) {
	needFull(t)
	slots <- struct{}{}
	defer func() { <-slots }()
	dir := filepath.Join(runDir(), "demoboot")
	giveDemoImage(t, filepath.Join(dir, "data"))
	d := startDemo(t, dir)
	d.until(regexp.MustCompile(`^Image: +demo:latest, .* built .* from debian:bookworm`))
	d.until(regexp.MustCompile(`^\d\d:\d\d:\d\d\.\d+ pc001 `)) // its first event
	d.running("serve --data", "qemu-system-x86_64 -name pc001", "watch")
	d.interrupt()
	if strings.Contains(d.output(), "pando image build") {
		t.Error("it has built an image")
	}
	if !t.Failed() {
		os.RemoveAll(dir)
	}
}

// A changed recipe is built again, and Ctrl-C during the build leaves nothing behind.
func TestRealDemoInterruptedInABuild(t *testing.T) {
	needFull(t)
	dir := filepath.Join(runDir(), "demobuild")
	giveDemoImage(t, filepath.Join(dir, "data"))
	recipe := filepath.Join(dir, "changed.yaml")
	if err := os.WriteFile(recipe, []byte("from: debian:bookworm\ncommand_line: [quiet]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := startDemo(t, dir, "--recipe", recipe)
	d.until(regexp.MustCompile(`^Image: +demo:latest is of another recipe`))
	d.until(regexp.MustCompile("^Image: +`pando image build demo"))
	d.running("serve --data", "mmdebstrap")
	d.interrupt()
	if !t.Failed() {
		os.RemoveAll(dir)
	}
}

// The whole demo twice, from nothing: it builds, boots, proves, is looked into and ended; then the image is used again.
func TestRealDemoFromEndToEnd(t *testing.T) {
	needFull(t)
	slots <- struct{}{}
	defer func() { <-slots }()
	dir := filepath.Join(runDir(), "demo")
	t.Cleanup(func() { stopDemo(t, dir) })

	first := startDemo(t, dir, "--keep")
	if code := first.end(); code != 0 {
		t.Fatalf("exit status %d:\n%s", code, first.output())
	}
	first.proven()
	if !strings.Contains(first.output(), "`pando image build demo") {
		t.Error("the first demo has built no image")
	}
	logins := regexp.MustCompile(`(?m)^  (ip netns exec .* ssh .*# (pc\d+))$`).FindAllStringSubmatch(first.output(), -1)
	if len(logins) != 3 {
		t.Errorf("%d ways to log in:\n%s", len(logins), first.output())
	}
	for _, l := range logins {
		login(t, l[1], l[2])
	}
	first.running("serve --data", "-name pc001", "-name pc002", "-name pc003")
	stopDemo(t, dir)
	first.gone()

	second := startDemo(t, dir)
	if code := second.end(); code != 0 {
		t.Fatalf("exit status %d:\n%s", code, second.output())
	}
	second.proven()
	if output := second.output(); !regexp.MustCompile(`(?m)^Image: +demo:latest, .* built .* from debian:bookworm`).
		MatchString(output) ||
		strings.Contains(output, "`pando image build") || !strings.Contains(output, "pando rollout start @default") {
		t.Errorf("the second demo does not use the image again:\n%s", output)
	}
	second.gone()
	if !t.Failed() {
		os.RemoveAll(dir)
	}
}

// login runs a line that the demo has printed, as a shell does, and asks the node who it is.
func login(t *testing.T, line, node string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", line)
	c.Stdin = strings.NewReader("echo I am $(hostname)\n")
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "I am "+node+"\n") {
		t.Errorf("%s: %v\n%s", line, err, out)
	}
}

func stopDemo(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command(filepath.Join(binDir, "pando-lab"), "stop", "--dir", dir).CombinedOutput(); err != nil {
		t.Errorf("pando-lab stop: %v\n%s", err, out)
	}
}

// giveDemoImage makes a data directory in which the demo finds its image built.
func giveDemoImage(t *testing.T, data string) {
	t.Helper()
	if err := copyData(base, data); err != nil {
		t.Fatal(err)
	}
	network, err := testkit.NewNet("boot", netip.MustParsePrefix(subnet))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { logError(t, network.Close()) }()
	s, err := testkit.StartSite(
		t.Context(),
		testkit.SiteConfig{Net: network, Bin: binDir, Data: data, Log: data + ".log", DHCP: "off"},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { logError(t, s.Close()) }()
	i, err := s.API.Image(t.Context(), bookworm)
	if err != nil {
		t.Fatal(err)
	}
	latest := i.Tags[fleet.LatestTag]
	if _, err := s.API.AddVersion(t.Context(), "demo",
		api.VersionAdd{Version: latest, Tags: []string{fleet.LatestTag}}); err != nil {
		t.Fatal(err)
	}
}

// demo is a running `pando-lab demo`.
type demo struct {
	t     *testing.T
	dir   string
	cmd   *exec.Cmd
	lines *bufio.Scanner
	log   strings.Builder
}

// startDemo starts it in a process group of its own, as a shell does.
func startDemo(t *testing.T, dir string, args ...string) *demo {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	t.Cleanup(cancel)
	d := &demo{t: t, dir: dir}
	d.cmd = exec.CommandContext(
		ctx,
		filepath.Join(binDir, "pando-lab"),
		append([]string{"demo", "--dir", dir}, args...)...)
	d.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	d.cmd.Cancel = func() error { return d.cmd.Process.Signal(unix.SIGTERM) }
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	d.cmd.Stdout, d.cmd.Stderr, d.lines = w, w, bufio.NewScanner(r)
	err = d.cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *demo) output() string { return d.log.String() }

// next is the next line that it prints; false when it has ended.
func (d *demo) next() (string, bool) {
	if !d.lines.Scan() {
		return "", false
	}
	fmt.Fprintln(&d.log, d.lines.Text())
	return d.lines.Text(), true
}

// until reads on to a line.
func (d *demo) until(want *regexp.Regexp) string {
	d.t.Helper()
	for {
		line, ok := d.next()
		if !ok {
			d.t.Fatalf("it ended without %q; it said:\n%s", want, d.output())
		}
		if want.MatchString(line) {
			return line
		}
	}
}

// end waits for its end and returns its exit status.
func (d *demo) end() int {
	d.t.Helper()
	for {
		if _, ok := d.next(); !ok {
			break
		}
	}
	_ = d.cmd.Wait() // the status says it
	return d.cmd.ProcessState.ExitCode()
}

// interrupt is Ctrl-C at the terminal, and what has to come of it.
func (d *demo) interrupt() {
	d.t.Helper()
	if err := unix.Kill(-d.cmd.Process.Pid, unix.SIGINT); err != nil {
		d.t.Fatal(err)
	}
	code := d.end()
	if code != 130 || !strings.HasSuffix(d.output(), "\npando-lab: interrupted; everything is cleaned up\n") {
		d.t.Errorf("interrupted, it ended with status %d and said:\n%s", code, d.output())
	}
	d.gone()
}

// proven checks that each machine's timeline and proof was printed.
func (d *demo) proven() {
	d.t.Helper()
	sections := strings.Split(d.output(), "\n=== ")
	for _, node := range []string{"pc001", "pc002", "pc003"} {
		var timeline, proof string
		for _, s := range sections {
			switch {
			case strings.HasPrefix(s, node+": timeline"):
				timeline = s
			case strings.HasPrefix(s, node+": proof"):
				proof = s
			}
		}
		if !strings.Contains(timeline, "booted") {
			d.t.Errorf("%s has no whole timeline:\n%s", node, timeline)
		}
		for _, want := range []string{`host name +` + node, `image version +sha256:[0-9a-f]{64}`, `systemd +running`,
			`failed units +none`, `findmnt / +overlay `, `sha256 of /usr/bin/bash +[0-9a-f]{64}`} {
			if !regexp.MustCompile(`(?m)^    ok   ` + want).MatchString(proof) {
				d.t.Errorf("%s: no proof of %s:\n%s", node, want, proof)
			}
		}
		if strings.Contains(proof, "    BAD ") {
			d.t.Errorf("%s: a bad proof:\n%s", node, proof)
		}
	}
}

// running waits until there is a program of the demo for each of some parts of command lines, and checks its namespace.
func (d *demo) running(parts ...string) {
	d.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(stepTimeout)
	for _, part := range parts {
		for !strings.Contains(strings.Join(d.programs(), "\n"), part) {
			select {
			case <-tick.C:
			case <-deadline:
				d.t.Fatalf("no program %q among\n%s\nit said:\n%s", part, strings.Join(d.programs(), "\n"), d.output())
			}
		}
	}
	if len(d.namespaces()) != 1 {
		d.t.Errorf("it has the namespaces %q", d.namespaces())
	}
}

// gone checks that nothing of a demo is left.
func (d *demo) gone() {
	d.t.Helper()
	if left := d.programs(); len(left) > 0 {
		d.t.Errorf("still running:\n%s", strings.Join(left, "\n"))
	}
	if left := d.namespaces(); len(left) > 0 {
		d.t.Errorf("still there: network namespaces %q", left)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "state.json")); err == nil {
		d.t.Error("state.json still says that something runs")
	}
}

// programs are the command lines of what works in the demo's directory, but for pando-lab itself.
func (d *demo) programs() []string {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		d.t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		line := strings.ReplaceAll(string(b), "\x00", " ")
		if err == nil && strings.Contains(line, d.dir+"/") && !strings.Contains(line, "pando-lab") {
			out = append(out, line)
		}
	}
	return out
}

func (d *demo) namespaces() []string {
	names, err := filepath.Glob(fmt.Sprintf("/run/netns/pando-%d-*", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	return names
}
