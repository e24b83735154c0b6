package fleet

import (
	"errors"
	"fmt"
	"strings"
)

// Mount is a file system that a node mounts.
type Mount struct {
	What, Where, Type string
	Options           string // as the line has them, "" for none: what is sane for a fleet comes from who renders it
}

// networkTypes are file systems that come over a network.
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

// ParseMount parses a line as fstab(5) has them: WHAT WHERE TYPE [OPTIONS].
func ParseMount(line string) (Mount, error) {
	f := strings.Fields(line)
	if len(f) < 3 || len(f) > 4 || len(line) > 1024 {
		return Mount{}, fmt.Errorf(
			"mount %.80q: want WHAT WHERE TYPE [OPTIONS], such as '10.0.0.1:/home /home nfs'",
			line,
		)
	}
	m := Mount{What: f[0], Where: f[1], Type: f[2]}
	if len(f) == 4 {
		m.Options = f[3]
	}
	if err := m.validate(); err != nil {
		return Mount{}, fmt.Errorf("mount %q: %w", line, err)
	}
	return m, nil
}

func (m Mount) validate() error {
	// They become settings of units, where a line break begins another one and % and quotes have a meaning.
	for _, s := range []string{m.What, m.Type, m.Options} {
		if !printable(s) || strings.ContainsAny(s, "\"'\\`$%") {
			return errors.New("use printable characters without quotes, backslash, $ and %")
		}
	}
	if strings.Trim(m.Type, "abcdefghijklmnopqrstuvwxyz0123456789._") != "" {
		return fmt.Errorf("%q is no type of file system", m.Type)
	}
	if m.Type == "swap" {
		return errors.New("swap space is no mount")
	}
	if strings.HasPrefix(m.Where, "/run/pando/state") {
		return nil
	}
	if m.Where == "/" || m.Where == "/usr" || m.Where == "/etc" {
		return fmt.Errorf("%s is the image's", m.Where)
	}
	return validPlace(m.Where)
}

// MountList are the lines of mounts.
func (k Keeping) MountList() []string { return ValueOf(k.Mounts) }

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

// LocalLines tells of the lines of an fstab(5) which ones a machine without its disks cannot mount at boot: swap,
// disks, pools of disks, and what lies on one of these.
func LocalLines(lines []string) []bool {
	local := make([]bool, len(lines))
	var gone []string // where they are mounted
	for before := -1; before < len(gone); {
		before = len(gone)
		for i, line := range lines {
			f := strings.Fields(line)
			if !local[i] && len(f) > 1 && f[0][0] != '#' && onLocalDisk(append(f, "", ""), gone) {
				local[i] = true
				gone = append(gone, f[1])
			}
		}
	}
	return local
}

// onLocalDisk judges the fields of one line. Left alone are disks that come by network (_netdev), and what only a
// person mounts (noauto).
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
		for _, p := range []string{"/dev/", "UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=", "ID="} {
			if strings.HasPrefix(f[0], p) {
				return true
			}
		}
	}
	// A bind names one directory, overlays and unions name several: each word between "," and "/,".
	words := strings.ReplaceAll(","+f[0]+":"+f[3]+":", ",", ":")
	words = strings.ReplaceAll(strings.ReplaceAll(words, "=", ":"), ":", "/,")
	for _, g := range gone {
		if len(g) > 1 && g[0] == '/' && strings.Contains(words, ","+g+"/") {
			return true
		}
	}
	return false
}
