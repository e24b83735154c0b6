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
