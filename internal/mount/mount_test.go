package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if IsInside() {
		os.Exit(Inside())
	}
	os.Exit(m.Run())
}

// tree returns a small root file system with a shell: an overlay over an empty directory. Its programs come from this
// machine's /usr, read-only.
func tree(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	dir := t.TempDir()
	lower, merged := filepath.Join(dir, "lower"), filepath.Join(dir, "merged")
	for _, d := range []string{"dev", "etc", "proc", "run", "sys", "tmp", "usr", "root", "var"} {
		if err := os.MkdirAll(filepath.Join(lower, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []string{"bin", "lib", "lib64", "sbin"} {
		if target, err := os.Readlink("/" + l); err == nil {
			if err := os.Symlink(target, filepath.Join(lower, l)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var s Stack
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Overlay(lower, filepath.Join(dir, "upper"), filepath.Join(dir, "work"), merged); err != nil {
		t.Skipf("this machine mounts no overlay here: %v", err)
	}
	if err := s.Bind("/usr", filepath.Join(merged, "usr"), true); err != nil {
		t.Fatal(err)
	}
	return merged
}

// sh runs a script inside a tree and returns its output.
func sh(t *testing.T, c Command, script string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c.Args, c.Stdout, c.Stderr = []string{"sh", "-euc", script}, &out, &out
	c.Env = append(c.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	err := c.Run(t.Context())
	return strings.TrimSpace(out.String()), err
}

// A command sees the files that were put there for it, and leaves only its own files.
func TestInside(t *testing.T) {
	root := tree(t)
	before, err := os.Stat(filepath.Join(root, "etc"))
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	c := Command{Root: root, Tmp: tmp, Hostname: "lab", Resolver: []byte("nameserver 192.0.2.7\n")}
	got, err := sh(t, c, `cat /etc/resolv.conf; hostname; echo $(ls -d /proc/[0-9]* | wc -l)
		test -c /dev/null && test -w /dev/ptmx && test -d /sys/kernel && test -d /run/lock && ! test -e `+root+`
		echo out > /dev/null; touch /run/x /dev/shm/y /tmp/z; test "$$" != 1`)
	if want := "nameserver 192.0.2.7\nlab\n"; err != nil || !strings.HasPrefix(got, want) {
		t.Fatalf("it says %q, %v; want %q first", got, err, want)
	}
	var found []string
	err = filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if rel := strings.TrimPrefix(path, root); rel != "/usr" && strings.Count(rel, "/") > 1 &&
			!strings.HasPrefix(rel, "/usr/") {
			found = append(found, rel)
		}
		return err
	})
	if err != nil || len(found) > 0 {
		t.Errorf("left in the tree: %q, %v", found, err)
	}
	if after, err := os.Stat(filepath.Join(root, "etc")); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("/etc was changed at %s, before at %s: %v", after.ModTime(), before.ModTime(), err)
	}
	if _, err := os.Stat(filepath.Join(tmp, "z")); err != nil {
		t.Errorf("/tmp was another: %v", err)
	}
	if out, err := exec.Command("findmnt", "-rno", "TARGET", "-R", root).Output(); err != nil ||
		strings.Count(string(out), "\n") != 2 {
		t.Errorf("mounts below the tree: %q, %v", out, err)
	}
}

// A file that the command puts in place of a mounted one stays, and so does a file that was there before.
func TestInsideKeepsWhatIsTheTrees(t *testing.T) {
	root := tree(t)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("etc/resolv.conf", "nameserver 198.51.100.1\n")
	c := Command{Root: root, Resolver: []byte("nameserver 192.0.2.7\n")}
	if got, err := sh(t, c, "cat /etc/resolv.conf; echo x > /etc/new"); err != nil || got != "nameserver 192.0.2.7" {
		t.Fatalf("%q, %v", got, err)
	}
	for name, want := range map[string]string{"etc/resolv.conf": "nameserver 198.51.100.1\n", "etc/new": "x\n"} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if err := os.Remove(filepath.Join(root, "etc/resolv.conf")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../run/systemd/resolve/stub-resolv.conf",
		filepath.Join(root, "etc/resolv.conf")); err != nil {
		t.Fatal(err)
	}
	if got, err := sh(t, c, "cat /etc/resolv.conf"); err != nil || got != "nameserver 192.0.2.7" {
		t.Errorf("by a link: %q, %v", got, err)
	}
}

func TestInsideFails(t *testing.T) {
	root := tree(t)
	var exit *ExitError
	if _, err := sh(t, Command{Root: root}, "exit 7"); !errors.As(err, &exit) || exit.Code != 7 {
		t.Errorf("exit 7: %v", err)
	}
	if _, err := sh(t, Command{Root: root}, "kill -9 $$"); !errors.As(err, &exit) || exit.Code != 137 {
		t.Errorf("killed: %v", err)
	}
	var out bytes.Buffer
	c := Command{Root: root, Args: []string{"no-such-program"}, Stderr: &out}
	if err := c.Run(t.Context()); !errors.As(err, &exit) ||
		!strings.Contains(out.String(), "no such program in the tree") {
		t.Errorf("no program: %v, %q", err, out.String())
	}
	if err := os.Remove(filepath.Join(root, "proc")); err != nil {
		t.Fatal(err)
	}
	if _, err := sh(t, Command{Root: root}, "true"); err == nil ||
		!strings.Contains(err.Error(), "no directory /proc") {
		t.Errorf("no /proc: %v", err)
	}
}

// A cancelled command has time to end. Processes that it left behind are killed at once.
func TestInsideIsStopped(t *testing.T) {
	root := tree(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	go func() {
		_, _ = r.Read(make([]byte, 1)) // wait until it has started
		cancel()
	}()
	left := fmt.Sprintf("1000.%d", os.Getpid())
	c := Command{Root: root, Env: []string{"PATH=/usr/bin:/bin"}, Stdout: w,
		Args: []string{
			"sh",
			"-c",
			`trap 'echo ended > /var/trapped; exit 0' TERM; setsid sleep ` + left + ` & echo started; wait`,
		}}
	if err := c.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "var/trapped")); err != nil || string(b) != "ended\n" {
		t.Errorf("it was not told: %q, %v", b, err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		if b, err := os.ReadFile(name); err == nil && string(b) == "sleep\x00"+left+"\x00" {
			t.Errorf("%s is left: %q", name, b)
		}
	}
}

func TestFileIsReadOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("mkfs.ext4 is not installed (Debian package e2fsprogs)")
	}
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-E", "offset=1048576", disk, "8M").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before, err := os.ReadFile(disk)
	if err != nil {
		t.Fatal(err)
	}
	var s Stack
	at := filepath.Join(dir, "at")
	if err := s.File(File{Path: disk, Offset: 1 << 20, Type: "ext4", Data: "noload"}, at); err != nil {
		t.Skipf("this machine has no loop devices: %v", err)
	}
	if err := os.WriteFile(filepath.Join(at, "x"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Errorf("write: %v, want EROFS", err)
	}
	if _, err := os.Stat(filepath.Join(at, "lost+found")); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(disk); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has changed (%v)", err)
	}
}
