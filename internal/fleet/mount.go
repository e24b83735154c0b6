package fleet

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Mount is a file system that a node mounts.
type Mount struct {
	What, Where, Type string
	Options           string // as in the line, "" for none; the code that renders the mount adds defaults for fleets
}

// networkTypes are file systems that are mounted over a network.
var networkTypes = []string{
	"nfs",
	"nfs4",
	"cifs",
	"smb3",
	"ceph",
	"lustre",
	"glusterfs",
	"fuse.sshfs",
	"afs",
	"9p",
	"beegfs",
	"gpfs",
}

// Network reports whether the file system comes over the network.
func (m Mount) Network() bool {
	for _, t := range networkTypes {
		if m.Type == t {
			return true
		}
	}
	return strings.Contains(","+m.Options+",", ",_netdev,")
}

// ParseMount parses a line of fstab(5): WHAT WHERE TYPE [OPTIONS [FREQ [PASSNO]]], with \040 for a blank.
func ParseMount(line string) (Mount, error) {
	f := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(f) < 3 || len(line) > 1024 || strings.ContainsAny(line, "\n\r\x00") ||
		len(f) > 6 && !strings.HasPrefix(f[6], "#") {
		return Mount{}, fmt.Errorf(
			"mount %.80q: want a line of fstab, WHAT WHERE TYPE [OPTIONS], such as '10.0.0.1:/home /home nfs'",
			line,
		)
	}
	for _, number := range f[min(len(f), 4):min(len(f), 6)] { // for dump and fsck, which nodes do not run
		if strings.Trim(number, "0123456789") != "" {
			return Mount{}, fmt.Errorf("mount %q: fields 5 and 6 of fstab are numbers, not %q", line, number)
		}
	}
	for i := range f {
		f[i] = unescaped(f[i])
	}
	m := Mount{What: unquotedTag(f[0]), Where: f[1], Type: f[2]}
	if len(f) > 3 {
		m.Options = f[3]
	}
	if strings.HasPrefix(m.Where, "/") {
		m.Where = path.Clean(m.Where)
	}
	if err := m.validate(); err != nil {
		return Mount{}, fmt.Errorf("mount %q: %w", line, err)
	}
	return m, nil
}

// unescaped replaces \040 and other octal escapes by their characters.
func unescaped(s string) string {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) && strings.Trim(s[i+1:i+4], "01234567") == "" && s[i+1] < '4' {
			out = append(out, (s[i+1]-'0')<<6|(s[i+2]-'0')<<3|(s[i+3]-'0'))
			i += 3
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

// unquotedTag removes the quotes of UUID="...".
func unquotedTag(what string) string {
	tag, value, ok := strings.Cut(what, "=")
	if n := len(value); ok && n > 1 && value[0] == '"' && value[n-1] == '"' && strings.Trim(tag, "ABDEILPRTU") == "" {
		return tag + "=" + value[1:n-1]
	}
	return what
}

func (m Mount) validate() error {
	// The fields become settings of systemd units: a line break would begin another setting, and a backslash at the end
	// would continue the line.
	for _, s := range []string{m.What, m.Where, m.Options} {
		if !utf8.ValidString(s) || strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 ||
			strings.TrimSpace(s) != s || strings.HasSuffix(s, `\`) {
			return errors.New("use no control characters, and neither blanks nor a backslash at an end")
		}
	}
	if strings.Trim(m.Type, "abcdefghijklmnopqrstuvwxyz0123456789._,+-") != "" {
		return fmt.Errorf("%q is no type of file system", m.Type)
	}
	if m.Type == "swap" {
		return errors.New("swap space is no mount: --swap gives nodes some")
	}
	if strings.HasPrefix(m.Where, "/run/pando/state") {
		return nil
	}
	if m.Where == "/" || m.Where == "/usr" || m.Where == "/etc" {
		return fmt.Errorf("%s belongs to the image", m.Where)
	}
	if !strings.HasPrefix(m.Where, "/") || len(m.Where) > 255 {
		return errors.New("want an absolute path, of at most 255 characters")
	}
	return notSystem(m.Where)
}

// MountList returns the lines of mounts, without comments.
func (k Keeping) MountList() []string {
	return slices.DeleteFunc(slices.Clone(ValueOf(k.Mounts)), func(s string) bool { return isComment(s, "#") })
}

// isComment reports whether a line of a file is empty or a comment. marks has the characters that begin comments.
func isComment(line, marks string) bool {
	line = strings.TrimSpace(line)
	return line == "" || strings.IndexByte(marks, line[0]) >= 0
}

func validMounts(k Keeping) error {
	taken := map[string]string{}
	for _, p := range k.Kept() {
		taken[p.Path] = "persist"
	}
	for _, line := range k.MountList() {
		m, err := ParseMount(line)
		if err != nil {
			return err
		}
		if by := taken[m.Where]; by != "" {
			return fmt.Errorf("mount %q: %s is taken by %s", line, m.Where, by)
		}
		taken[m.Where] = "another mount"
	}
	return nil
}

// LocalLines reports, for each line of an fstab(5), whether a machine without its disks cannot mount it at boot: swap,
// disks, pools of disks, and mounts on one of these.
func LocalLines(lines []string) []bool {
	local := make([]bool, len(lines))
	var gone []string // mount points of local lines
	for before := -1; before < len(gone); {
		before = len(gone)
		for i, line := range lines {
			f := strings.Fields(line)
			if !local[i] && len(f) > 1 && f[0][0] != '#' && onLocalDisk(append(f, "", ""), gone) {
				local[i] = true
				gone = append(gone, path.Clean(f[1]))
			}
		}
	}
	return local
}

// onLocalDisk reports whether the fields of one line need a local disk. Network disks (_netdev) and lines that are
// mounted by hand only (noauto) do not.
func onLocalDisk(f, gone []string) bool {
	if strings.Contains(f[3], "_netdev") || strings.Contains(f[3], "noauto") {
		return false
	}
	if !strings.Contains(f[3], "bind") {
		switch f[2] {
		case "swap", "zfs", "ubifs", "jffs2": // the last three name a pool or a flash chip by a word
			return true
		case "tmpfs": // its first field is any word
			return false
		}
		if hypervisorShare(f) {
			return true
		}
		for _, p := range []string{"/dev/", "UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=", "ID="} {
			if strings.HasPrefix(f[0], p) {
				return true
			}
		}
	}
	// A bind mount names one directory; overlays and unions name several, in the first field or in options.
	words := strings.FieldsFunc(f[0]+":"+f[3], func(r rune) bool { return strings.ContainsRune(":,=", r) })
	for _, g := range gone {
		if len(g) > 1 && g[0] == '/' && slices.ContainsFunc(words, func(w string) bool { return isBelow(w, g) }) {
			return true
		}
	}
	return false
}

// hypervisorShare reports whether the fields of one line name a directory that a hypervisor shares with its guest.
func hypervisorShare(f []string) bool {
	kind := f[2]
	if kind == "fuse" {
		kind, _, _ = strings.Cut(f[0], "#") // the program
	}
	switch strings.TrimSuffix(strings.TrimPrefix(kind, "fuse."), "-fuse") {
	case "virtiofs", "vboxsf", "hgfs", "vmhgfs", "prl_fs":
		return true
	case "9p":
		return !strings.Contains(f[3], "trans=tcp") && !strings.Contains(f[3], "trans=rdma")
	}
	return false
}

// isBelow reports whether a directory, which may be a pattern of a union, is dir or below it.
func isBelow(name, dir string) bool {
	parts := strings.Split(name, "/")
	n := strings.Count(dir, "/") + 1
	if len(parts) < n {
		return false
	}
	top := strings.Join(parts[:n], "/")
	fits, _ := path.Match(top, dir) // what is no pattern is a name
	return fits || top == dir
}
