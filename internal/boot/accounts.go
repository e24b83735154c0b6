package boot

import "strings"

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

// fstabNote is put before a masked line.
const fstabNote = "# masked by Pando, whose root is an overlay: "

// maskRoot returns fstab(5) without the lines that cannot be right on a node: the root, and /boot with all
// below it, which an image does not have. They are kept as comments.
func maskRoot(fstab string) string {
	lines := strings.SplitAfter(fstab, "\n")
	for i, line := range lines {
		f := strings.Fields(line)
		if len(f) < 2 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if dir := f[1]; dir == "/" || dir == "/boot" || strings.HasPrefix(dir, "/boot/") || dir == "/efi" {
			lines[i] = fstabNote + line
		}
	}
	return strings.Join(lines, "")
}
