package initrd

import (
	"strings"

	"pando/internal/fleet"
)

// lockedPassword is a password field that no password matches. It is not "!": sshd without PAM takes that for a
// locked account and refuses root's keys too.
const lockedPassword = "*"

// lockRoot locks root's password in the text of shadow(5). Login with a key still works.
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

// Comments that are put before a masked line of fstab or crypttab.
const (
	rootNote = "# masked by Pando, whose root is an overlay: "
	diskNote = "# masked by Pando, which probes no local disks: "
)

// maskFstab comments out the lines of fstab(5) that are wrong on a node: the root, /boot and everything below it,
// swap, local disks and pools. For the local ones systemd would wait 90 s and then enter emergency mode. It also
// reports which units are local in the same way.
func maskFstab(fstab string, units ...diskUnit) (masked string, local []bool) {
	lines := strings.SplitAfter(fstab, "\n")
	n := len(lines)
	for _, u := range units {
		lines = append(lines, u.line)
	}
	local = fleet.LocalLines(lines)
	lines = lines[:n]
	for i, line := range lines {
		f := strings.Fields(line)
		switch {
		case len(f) < 2 || f[0][0] == '#':
		case f[1] == "/" || f[1] == "/efi" || strings.HasPrefix(f[1]+"/", "/boot/"):
			lines[i] = rootNote + line
		case local[i]:
			lines[i] = diskNote + line
		}
	}
	return strings.Join(lines, ""), local[n:]
}

// maskCrypttab comments out the lines of crypttab(5) for local disks. systemd would wait 90 s for them.
func maskCrypttab(crypttab string) string {
	lines := strings.SplitAfter(crypttab, "\n")
	for i, line := range lines {
		f := strings.Fields(line)
		if len(f) > 1 && f[0][0] != '#' && (f[1][0] != '/' || strings.HasPrefix(f[1], "/dev/")) &&
			!strings.Contains(line, "noauto") && !strings.Contains(line, "_netdev") {
			lines[i] = diskNote + line
		}
	}
	return strings.Join(lines, "")
}
