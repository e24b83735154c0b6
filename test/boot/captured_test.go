package boot

import (
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"pando/internal/fleet"
	"pando/internal/testkit"
)

// A running machine that was changed by hand is captured over ssh, without rsync, and a disk with a boot partition is
// made from an image's root. A machine boots from each of the two, with its own identity and not that of the captured
// machine.
func TestRealBootCaptured(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	pilot := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 0x4b, 1, 1}, firmware: testkit.BIOS, group: bookworm}
	s.boot(pilot)
	g := s.shell(pilot)
	s.run(
		g,
		"echo tuned by hand > /etc/motd; useradd --create-home --shell /bin/sh pupil; echo secret > "+
			"/root/.ssh/id_mine; command -v rsync || true",
	)
	output := s.capture(pilot, "tuned")
	for _, want := range []string{"has no rsync", "/etc/ssh/ssh_host_*", "/root/.ssh/id_*"} {
		if !strings.Contains(output, want) {
			t.Errorf("it does not say %q:\n%s", want, output)
		}
	}
	s.command("image", "build", "vm", "--from-disk", s.vmDisk(bookworm))
	for i, name := range []string{"tuned", "vm"} {
		s.group(name)
		n := node{
			name:     "pc00" + string(rune('2'+i)),
			mac:      fleet.MAC{0x52, 0x54, 0, 0x4b, 1, byte(2 + i)},
			firmware: testkit.BIOS,
			group:    name,
		}
		s.boot(n)
		g := s.shell(n) // shell expects the node's own host key
		want := n.name
		if name == "tuned" {
			want += "\ntuned by hand\nuid"
		}
		if got := s.run(g, "hostname; cat /etc/motd; id pupil | cut -c1-3; test ! -e "+
			"/root/.ssh/id_mine"); name == "tuned" &&
			got != want {
			t.Errorf("%s: %q, want %q", n.name, got, want)
		}
		s.noErrors(n, g)
	}
}

// capture makes an image of a running node.
func (s *site) capture(n node, name string) string {
	s.t.Helper()
	addr, err := s.Address(s.t.Context(), n.mac)
	if err != nil {
		s.t.Fatal(err)
	}
	host, err := s.HostKey(n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	key, known := filepath.Join(s.dir, "key"), filepath.Join(s.dir, "known")
	block, err := ssh.MarshalPrivateKey(loginSecret, "")
	if err == nil {
		err = os.WriteFile(key, pem.EncodeToMemory(block), 0o600)
	}
	if err == nil {
		err = os.WriteFile(known, []byte(addr.String()+" "+string(ssh.MarshalAuthorizedKey(host))), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	c := s.net.Command(
		s.t.Context(),
		filepath.Join(binDir, "pando"),
		"--data",
		s.Config.Data,
		"image",
		"capture",
		name,
		"root@"+addr.String(),
		"--kernel-from",
		bookworm,
		"--ssh",
		"ssh -i "+key+" -o BatchMode=yes -o IdentitiesOnly=yes -o UserKnownHostsFile="+known,
	)
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("capture: %v\n%s", err, out)
	}
	return string(out)
}

// vmDisk returns a disk like that of a virtual machine, with the root of an image and its kernel.
func (s *site) vmDisk(ref string) string {
	s.t.Helper()
	tree, disk := filepath.Join(s.dir, "vm"), filepath.Join(s.dir, "disk.qcow2")
	mounts := s.mountImage(ref, tree)
	release := s.kernelOf(ref, filepath.Join(s.dir, "vmlinuz"))
	const script = `cd "$1"; truncate -s 1900M root; mkfs.ext4 -q -O ^has_journal -d vm root; mkdir at; mount -o loop root at
		mkdir -p at/boot; cp vmlinuz "at/boot/vmlinuz-$2"; printf 'UUID=%s / ext4 defaults 0 1\n' "$(blkid -s UUID -o value root)" > at/etc/fstab; umount at
		truncate -s 2G disk; echo start=2048 | sfdisk -q --label gpt disk; dd status=none conv=notrunc,sparse bs=1M seek=1 if=root of=disk; rm root
		qemu-img convert -O qcow2 disk "$3"; rm disk`
	if out, err := exec.CommandContext(s.t.Context(), "sh", "-euc", script, "sh", s.dir, release,
		disk).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	if err := mounts.Close(); err != nil {
		s.t.Error(err)
	}
	return disk
}

// kernelOf writes the kernel of an image to a file and returns its release.
func (s *site) kernelOf(ref, file string) (release string) {
	s.t.Helper()
	m, d := s.manifestOf(ref)
	kernel, err := d.Get(s.t.Context(), m.Kernel.Object)
	if err == nil {
		err = os.WriteFile(file, kernel, 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return m.Kernel.Release
}
