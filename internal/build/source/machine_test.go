package source

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/systree"
)

// pilot makes a tree like that of a machine, with files that must not be copied.
func pilot(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root reads all of a machine")
	}
	if _, err := exec.LookPath("rsync"); err != nil {
		t.Skip("rsync is not installed (Debian package rsync)")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"etc/os-release": "ID=test\n", "etc/hostname": "pilot\n", "etc/machine-id": "0123\n",
		"etc/ssh/ssh_host_ed25519_key": "key", "etc/ssh/sshd_config": "x",
		"etc/krb5.keytab": "secret", "etc/passwd": "root:x:0:0::/root:/bin/sh\n", "etc/shadow": "root:$y$x:1::::::\n",
		"etc/wireguard/wg0.conf": "PrivateKey",
		"etc/fstab": "# mine\nUUID=1-2 / ext4 defaults 0 1\n/dev/sda2 none swap sw 0 0\nserver:/home /home " +
			"nfs defaults 0 0\n",
		"var/log/syslog": "lines", "var/log/nginx/access.log": "lines", "var/cache/apt/archives/x.deb": "deb",
		"var/cache/man/index.db": "kept",
		"home/desk/letter":       "dear", "home/lab/.profile": "PATH", "tmp/x": "x", "proc/1/environ": "x",
		"root/.ssh/id_ed25519": "key", "root/.ssh/authorized_keys": "ssh-ed25519 A",
		"usr/bin/tool": "#!/bin/sh\n", "boot/vmlinuz-6.1.0-test": "kernel", "boot/initrd.img-6.1.0-test": "initrd",
		"srv/data/big": "big", "srv/site": "kept", "var/lib/pando/keys/site": "key",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("sh", "-euc",
		`cd "$1"; ln usr/bin/tool usr/bin/same; ln -s tool usr/bin/link; chmod 4755 usr/bin/tool; chown 8:9 var/cache/man/index.db
		mkfifo var/pipe; touch -d @12345 usr/bin/tool; truncate -s 20M usr/sparse
		setfattr -n trusted.gfid -v x usr/bin/tool; setfattr -n user.kept -v x usr/bin/tool`, "sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// newPlace returns an empty place.
func newPlace(t *testing.T) Place {
	t.Helper()
	dir := t.TempDir()
	p := Place{Root: filepath.Join(dir, "tree"), Keep: filepath.Join(dir, "keep")}
	for _, d := range []string{p.Root, p.Keep} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// checkCopy checks a copy of the pilot.
func checkCopy(t *testing.T, tree string, made Made) {
	t.Helper()
	for name, want := range map[string]bool{
		"etc/os-release": true, "etc/hostname": false, "etc/ssh/ssh_host_ed25519_key": false,
		"etc/ssh/sshd_config": true, "etc/krb5.keytab": false, "etc/shadow": true,
		"etc/wireguard": true, "etc/wireguard/wg0.conf": false, "var/log/nginx": true,
		"var/log/nginx/access.log": false, "var/log/syslog": false,
		"var/cache/apt/archives/x.deb": false, "var/cache/man/index.db": true, "home": true, "home/desk": false,
		"home/lab/.profile": true, "tmp": true, "tmp/x": false,
		"proc": true, "proc/1": false, "root/.ssh/id_ed25519": false, "root/.ssh/authorized_keys": true,
		"boot/vmlinuz-6.1.0-test": true, "boot/initrd.img-6.1.0-test": false,
		"srv/data": false, "srv/site": true, "var/pipe": true, "run": true, "sys": true, "dev": true,
		"var/lib/pando": false,
	} {
		if _, err := os.Lstat(filepath.Join(tree, name)); (err == nil) != want {
			t.Errorf("%s: there %t, want %t", name, err == nil, want)
		}
	}
	attributes, err := systree.Xattrs(filepath.Join(tree, "usr/bin/tool"))
	if want := []string{"user.kept"}; err != nil || !slices.Equal(attributes, want) {
		t.Errorf("a file has the attributes %q, %v; want %q", attributes, err, want)
	}
	got, err := exec.Command("sh", "-euc",
		`cd "$1"; stat -c '%a %Y %h' usr/bin/tool; stat -c '%u:%g %a' var/cache/man/index.db; readlink usr/bin/link
		test usr/bin/tool -ef usr/bin/same; test $(stat -c %b usr/sparse) -lt 100; wc -c < etc/machine-id; cat etc/fstab`, "sh", tree).
		CombinedOutput()
	const disk = "# a disk of the machine that this image is a copy of: "
	want := "4755 12345 2\n8:9 640\ntool\n0\n# mine\n" + disk + "UUID=1-2 / ext4 defaults 0 1\n" + disk +
		"/dev/sda2 none swap sw 0 0\nserver:/home /home nfs defaults 0 0\n"
	if err != nil || string(got) != want {
		t.Errorf("%v; got:\n%s\nwant:\n%s", err, got, want)
	}
	output := strings.Join(made.Notes, "\n")
	for _, want := range []string{"/etc/ssh/ssh_host_*", "/etc/krb5.keytab", "/etc/wireguard/*", "/var/log/**",
		"/home/*", "/etc/fstab, lines of local disks are comments now: / none",
		"attributes of the machine that the tree comes from are left out; the first is "} {
		if !strings.Contains(output, want) {
			t.Errorf("it does not say %q:\n%s", want, output)
		}
	}
}

var pilotChoice = Choice{Exclude: []string{"/srv/data"}, With: []string{"/home/lab"}}

// TestMachine: a copy of this machine has everything that belongs to an image. What must not be copied is left out
// and reported.
func TestMachine(t *testing.T) {
	m := Machine{Root: pilot(t), Choice: pilotChoice}
	p := newPlace(t)
	made, err := m.Fill(t.Context(), p, func(Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	checkCopy(t, p.Root, made)
	if again, err := m.Fill(t.Context(), p, func(Progress) {}); err != nil {
		t.Errorf("a second time: %v", err)
	} else {
		checkCopy(t, p.Root, again)
	}
}

// sshd starts a real server on loopback that accepts root with a key, and returns the program that connects to it.
func sshd(t *testing.T, more ...string) []string {
	t.Helper()
	const server = "/usr/sbin/sshd"
	if _, err := os.Stat(server); err != nil {
		t.Skip("sshd is not installed (Debian package openssh-server)")
	}
	dir := t.TempDir()
	port := freePort(t)
	script := `cd "$1"; chmod 700 .; ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f user; cp user.pub authorized; mkdir -p /run/sshd
printf '%s\n' 'ListenAddress 127.0.0.1' "Port $2" "HostKey $1/host" "AuthorizedKeysFile $1/authorized" 'PermitRootLogin prohibit-password' 'StrictModes no' 'UsePAM no' "PidFile none" > config`
	if out, err := exec.Command("sh", "-euc", script, "sh", dir, port).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	config, err := os.OpenFile(filepath.Join(dir, "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = config.WriteString(strings.Join(more, "\n") + "\n")
	if err = errors.Join(err, config.Close()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, server, "-D", "-e", "-f", filepath.Join(dir, "config"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); _ = cmd.Wait() }) // killed
	waitPort(t, port)
	return []string{
		"ssh",
		"-p",
		port,
		"-i",
		filepath.Join(dir, "user"),
		"-o",
		"IdentitiesOnly=yes",
		"-o",
		"StrictHostKeyChecking=no",
		"-o",
		"BatchMode=yes",
		"-o",
		"UserKnownHostsFile=" + filepath.Join(dir, "known"),
	}
}

// TestMachineOverSSH copies another machine over a real sshd. An interrupted copy continues.
func TestMachineOverSSH(t *testing.T) {
	m := Machine{Remote: "root@127.0.0.1:" + pilot(t), Choice: pilotChoice}
	m.SSH = sshd(t)
	p := newPlace(t)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := m.Fill(ctx, p, func(s Progress) {
		if s.Done > 0 {
			cancel()
		}
	}); err == nil {
		t.Log("it was through before it could be interrupted")
	}
	made, err := m.Fill(t.Context(), p, func(Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	checkCopy(t, p.Root, made)
	m.Remote = "root@127.0.0.1:/no/such/tree"
	if _, err := m.Fill(t.Context(), newPlace(t), func(Progress) {}); err == nil ||
		!strings.Contains(err.Error(), "No such file") {
		t.Errorf("a tree that is not there: %v", err)
	}
	m.Remote = "root@127.0.0.1; reboot"
	if _, err := m.Fill(t.Context(), newPlace(t), func(Progress) {}); err == nil ||
		!strings.Contains(err.Error(), "as ssh knows it") {
		t.Errorf("a name with a command: %v", err)
	}
}

// TestMachineWithoutRsync: a machine without rsync sends a tar archive with the same files. Without GNU tar the error
// says what to install.
func TestMachineWithoutRsync(t *testing.T) {
	tree, bin := pilot(t), t.TempDir()
	for _, p := range []string{"id", "find", "grep", "tar", "sh", "mountpoint"} {
		path, err := exec.LookPath(p)
		if err == nil {
			err = os.Symlink(path, filepath.Join(bin, p))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m := Machine{Remote: "root@127.0.0.1:" + tree, Choice: pilotChoice, SSH: sshd(t, "SetEnv PATH="+bin)}
	p := newPlace(t)
	for range 2 {
		var output []string
		made, err := m.Fill(t.Context(), p, func(s Progress) { output = append(output, s.Note) })
		if err != nil {
			t.Fatal(err)
		}
		checkCopy(t, p.Root, made)
		if !strings.Contains(strings.Join(output, "\n"), "no rsync: copying with tar") ||
			!strings.Contains(strings.Join(made.Notes, "\n"), "has no rsync") {
			t.Errorf("it does not say how it copies: %q, %q", output, made.Notes)
		}
	}
	if err := os.Remove(filepath.Join(bin, "tar")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Fill(t.Context(), newPlace(t), func(Progress) {}); err == nil ||
		!strings.Contains(err.Error(), "install rsync there") {
		t.Errorf("neither: error %v", err)
	}
}
