package loginfiles

import (
	"bytes"
	"context"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/blockapi"
)

// tree returns a root with programs of this machine, among them bash and its libraries if there is one.
func tree(t *testing.T) (root, bash string) {
	t.Helper()
	root = t.TempDir()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skipf("there is no program to look at: %v", err)
	}
	if bash, err = filepath.EvalSymlinks(bash); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(bash)
	if err != nil {
		t.Fatal(err)
	}
	libraries, loader := needs(bytes.NewReader(data))
	files := map[string]string{
		"/usr/bin/bash": string(data), loader: "loader", "/usr/bin/ls": "#!/bin/sh\n", "/usr/bin/firefox": "large",
		"/etc/passwd": "root:x:0:0::/root:/bin/bash\n", "/etc/pam.d/sshd": "# pam_not.so\nauth required pam_unix.so\n",
		"/usr/lib/x86_64-linux-gnu/security/pam_unix.so": "module", "/etc/ssh/sshd_config.d/site.conf": "Port 22\n",
		"/usr/lib/x86_64-linux-gnu/security/pam_not.so": "not asked for",
		"/etc/nsswitch.conf":                            "passwd: files sss # ldap\n",
		"/usr/lib/x86_64-linux-gnu/libnss_sss.so.2":     "sss", "/usr/lib/x86_64-linux-gnu/libnss_ldap.so.2": "ldap",
		"/etc/motd": "",
	}
	for _, l := range libraries {
		files["/usr/lib/x86_64-linux-gnu/"+l] = "library " + l
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(root+name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root, bash
}

// room is what the daemon has room for when the archive of locales is read.
const room = 4 << 20

// kept returns a reader and the files that it reads, in order.
func kept(root string) (k *reader, names []string) {
	k = &reader{root: root, known: map[string]bool{}, pause: func(int64) bool { return true },
		free: func() int64 { return room },
		read: func(f *os.File, _ int64) error {
			names = append(names, strings.TrimPrefix(f.Name(), root))
			return nil
		}}
	k.all()
	return k, names
}

// A shell is read with its libraries and loader, PAM and NSS with the configured modules.
func TestWhatALoginReads(t *testing.T) {
	root, bash := tree(t)
	k, names := kept(root)
	f, err := os.Open(bash)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, loader := needs(f)
	for _, want := range []string{"/usr/bin/bash", loader, "/etc/passwd", "/etc/pam.d/sshd", "/usr/bin/ls",
		"/usr/lib/x86_64-linux-gnu/security/pam_unix.so", "/usr/lib/x86_64-linux-gnu/libnss_sss.so.2",
		"/usr/lib/x86_64-linux-gnu/libc.so.6", "/etc/ssh/sshd_config.d/site.conf"} {
		if n := slices.Index(names, want); n < 0 || slices.Contains(names[n+1:], want) {
			t.Errorf("%s is not kept once: %q", want, names)
		}
	}
	for _, name := range names {
		if strings.Contains(name, "firefox") || strings.Contains(name, "pam_not") || strings.Contains(name, "ldap") {
			t.Errorf("%s is kept", name)
		}
	}
	if slices.Index(names, "/etc/passwd") > slices.Index(names, "/usr/bin/ls") {
		t.Errorf("tools come first: %q", names)
	}
	if k.files != len(names) {
		t.Errorf("%d files are counted; there are %d", k.files, len(names))
	}
}

// needs returns the same as the standard library.
func TestNeedsOfPrograms(t *testing.T) {
	_, bash := tree(t)
	f, err := elf.Open(bash)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(bash)
	if err != nil {
		t.Fatal(err)
	}
	got, loader := needs(bytes.NewReader(data))
	if !slices.Equal(got, want) || !strings.Contains(loader, "/ld-") || len(got) == 0 {
		t.Errorf("%q, loader %q; want %q", got, loader, want)
	}
	for n := range 600 { // a truncated program is no program, or needs less
		needs(bytes.NewReader(data[:n]))
	}
}

// A file is read whole, with O_DIRECT where possible, and can be read normally afterwards.
func TestReadThrough(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	want := strings.Repeat("0123456789", 30_000)
	if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := readThrough(f, int64(len(want))); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := f.ReadAt(b, 3); err != nil || string(b) != "34567" {
		t.Errorf("%q, %v", b, err)
	}
}

// daemon is a block daemon that may be replaced.
type daemon struct {
	pid   int
	begun int
	ended int
}

func (d *daemon) Status(context.Context, int64) (blockapi.Status, error) {
	return blockapi.Status{PID: d.pid}, nil
}

func (d *daemon) Hold(_ context.Context, on bool) (blockapi.Held, error) {
	if on {
		d.begun++
	} else {
		d.ended++
	}
	return blockapi.Held{}, nil
}

// Each new daemon gets one hold request.
func TestEachDaemonIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		d := &daemon{pid: 1}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			run(ctx, d, io.Discard, func(k *reader) { k.files++ })
		}()
		time.Sleep(beginWithin + 10*lookEvery)
		if d.begun != 1 || d.ended != 1 {
			t.Errorf("the first: begun %d times, ended %d times", d.begun, d.ended)
		}
		d.pid = 2
		time.Sleep(2 * lookEvery)
		if d.begun != 2 || d.ended != 2 {
			t.Errorf("the second: begun %d times, ended %d times", d.begun, d.ended)
		}
		cancel()
		<-ended
	})
}

func FuzzNeeds(f *testing.F) {
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[:4096])
	f.Fuzz(func(_ *testing.T, b []byte) { needs(bytes.NewReader(b)) })
}
