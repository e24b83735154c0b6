package initrd

import (
	"strings"
)

// lockedPassword is a password field that no password matches. Not "!", which sshd takes for a locked account
// and then refuses root's keys as well where it runs without PAM.
const lockedPassword = "*"

// lockRoot returns shadow(5) with root's password locked. Login by key goes on working.
func lockRoot(shadow string) string {
	lines := strings.SplitAfter(shadow, "\n")
	for i, line := range lines {
		f := strings.SplitN(line, ":", 3)
		if len(f) == 3 && f[0] == "root" && f[1] != lockedPassword {
			lines[i] = "root:" + lockedPassword + ":" + f[2]
		}
	}
	return strings.Join(lines, "")
}

// What is put before a masked line of fstab.
const (
	rootNote = "# masked by Pando, whose root is an overlay: "
	diskNote = "# masked by Pando, which probes no local disks: "
)

// maskFstab returns fstab(5) without the lines that cannot be right on a node: the root, /boot with all below
// it, which an image does not have, swap, and local disks, for which systemd would wait 90 s and then fail. They
// are kept as comments.
func maskFstab(fstab string) string {
	lines := strings.SplitAfter(fstab, "\n")
	for i, line := range lines {
		f := strings.Fields(line)
		if len(f) < 2 || strings.HasPrefix(f[0], "#") {
			continue
		}
		dir := f[1]
		switch {
		case dir == "/" || dir == "/boot" || strings.HasPrefix(dir, "/boot/") || dir == "/efi":
			lines[i] = rootNote + line
		case onLocalDisk(f):
			lines[i] = diskNote + line
		}
	}
	return strings.Join(lines, "")
}

// onLocalDisk reports whether the fields of a line name swap or a disk of the machine that is mounted at boot.
// Left alone are binds, disks that come by network (_netdev), and what only a person mounts (noauto).
func onLocalDisk(f []string) bool {
	kind, options := "auto", []string(nil)
	if len(f) > 2 {
		kind = f[2]
	}
	if len(f) > 3 {
		options = strings.Split(f[3], ",")
	}
	for _, o := range options {
		switch o {
		case "bind", "rbind", "_netdev", "noauto":
			return false
		}
	}
	if kind == "swap" {
		return true
	}
	if kind == "tmpfs" {
		return false // its first field is any word
	}
	for _, p := range []string{"/dev/", "UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=", "ID="} {
		if strings.HasPrefix(f[0], p) {
			return true
		}
	}
	return false
}
