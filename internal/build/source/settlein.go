package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// settleIn turns a copy of a machine into a tree that any node can boot: it makes the directories that a system mounts
// on, empties the machine-id, and removes waits for disks that a node does not have. It returns notes for the operator.
func settleIn(tree string) ([]string, error) {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, d := range []struct {
		name string
		mode os.FileMode
	}{{"dev", 0o755}, {"proc", 0o555}, {"run", 0o755}, {"sys", 0o555}, {"tmp", 0o777 | os.ModeSticky}} {
		if _, err := root.Lstat(d.name); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := root.Mkdir(d.name, 0o755); err != nil {
			return nil, err
		}
		if err := root.Chmod(d.name, d.mode); err != nil {
			return nil, err
		}
	}
	if info, err := root.Stat("etc"); err != nil || !info.IsDir() {
		return nil, errors.New("it has no /etc: is it the root of a system?")
	}
	// systemd takes an existing empty file as no first boot, and uses the ID that the node is given.
	if err := root.WriteFile("etc/machine-id", nil, 0o444); err != nil {
		return nil, err
	}
	return settleFstab(root)
}

// settleFstab comments out the lines of fstab(5) that mount local disks: a node would wait for each of them and fail
// to boot.
func settleFstab(root *os.Root) ([]string, error) {
	text, err := root.ReadFile("etc/fstab")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	var places []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && !strings.HasPrefix(f[0], "#") && localDisk(f[0]) {
			places = append(places, f[1])
			out.WriteString("# a disk of the machine that this image is a copy of: ")
		}
		out.WriteString(line)
	}
	if len(places) == 0 {
		return nil, nil
	}
	if err := root.WriteFile("etc/fstab", []byte(out.String()), 0o644); err != nil {
		return nil, err
	}
	return []string{
		fmt.Sprintf("in /etc/fstab, lines of local disks are comments now: %s", strings.Join(places, " ")),
	}, nil
}

// localDisk reports whether a first field of fstab(5) is a local device.
func localDisk(field string) bool {
	for _, prefix := range []string{"UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=", "/dev/"} {
		if strings.HasPrefix(field, prefix) {
			return true
		}
	}
	return false
}
