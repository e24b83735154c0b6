package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"pando/internal/command"
	"pando/internal/mount"
)

// Disk is the disk of a virtual machine in a file, raw or qcow2. Fill finds its root file system and those that its
// fstab mounts below, mounts them read-only and copies them, except what must not be copied (see omissions).
type Disk struct {
	File   string
	Choice Choice
}

// Key is the file's path.
func (d Disk) Key() string {
	return "disk-" + place(d.File)
}

// State contains the file's size and time, and the choice of files to leave out.
func (d Disk) State(context.Context) (string, error) {
	if err := d.Choice.check(); err != nil {
		return "", err
	}
	info, err := os.Stat(d.File)
	if err != nil {
		return "", fmt.Errorf("disk: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf(
			"disk %s: not a regular file; of a disk that is in use, copy the machine with `pando image capture`",
			d.File,
		)
	}
	return fmt.Sprintf("%d bytes of %d, %s", info.Size(), info.ModTime().UnixNano(),
		strings.Join(d.Choice.rules(), " ")), nil
}

// Fill copies the root file system.
func (d Disk) Fill(ctx context.Context, p Place, progress func(Progress)) (made Made, err error) {
	made = Made{Kind: "disk", Name: d.File}
	defer func() {
		if err != nil {
			err = fmt.Errorf("disk %s: %w", d.File, err)
		}
	}()
	raw, err := d.raw(ctx, p, progress)
	if err != nil {
		return made, err
	}
	parts, err := readPartitions(raw)
	if err != nil {
		return made, err
	}
	at := filepath.Join(p.Keep, "disk")
	var mounts mount.Stack
	defer func() { err = errors.Join(err, mounts.Close()) }()
	where, err := mountDisk(&mounts, raw, parts, at)
	if err != nil {
		return made, err
	}
	omitted, err := rsync{root: at, choice: d.Choice}.run(ctx, p, progress)
	if err != nil {
		return made, err
	}
	made.Notes, err = settleIn(p.Root)
	made.Notes = slices.Concat([]string{where}, omitted, made.Notes)
	return made, err
}

// kinds are the signatures of disk formats other than raw.
var kinds = []struct {
	name, magic string
	offset      int
}{
	{
		"qcow2",
		"QFI\xfb",
		0,
	}, {"vmdk", "KDMV", 0}, {"vmdk", "COWD", 0}, {"vmdk", "# Disk Descript", 0}, {"vhdx", "vhdxfile", 0},
	{"vpc", "conectix", 0},
	{"vdi", "\x7f\x10\xda\xbe", 64}, {"qed", "QED\x00", 0},
}

// diskKind returns the format of a disk file.
func diskKind(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, 512)
	if _, err := f.ReadAt(head, 0); err != nil {
		return "", errors.New("it is shorter than a disk")
	}
	for _, k := range kinds {
		if string(head[k.offset:k.offset+len(k.magic)]) == k.magic {
			return k.name, nil
		}
	}
	return "raw", nil
}

// notDisk returns an error for a file that is an archive; nil if it may be a disk.
func notDisk(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, _ := f.ReadAt(head, 0) // a short file is examined, too
	for _, magic := range []string{"\x1f\x8b", "\x28\xb5\x2f\xfd", "BZh", "\xfd7zXZ"} {
		if strings.HasPrefix(string(head[:n]), magic) {
			return errors.New("it is packed: unpack it first; of a packed tar archive, --from-tar takes it as it is")
		}
	}
	if n == len(head) && string(head[257:262]) == "ustar" {
		return errors.New("it is a tar archive: --from-tar takes it")
	}
	return nil
}

// raw returns the disk as a raw file: the file itself, or what qemu-img converts it to. A converted disk is kept
// until the tree is complete.
func (d Disk) raw(ctx context.Context, p Place, progress func(Progress)) (string, error) {
	kind, err := diskKind(d.File)
	if err != nil {
		return "", err
	}
	switch kind {
	case "raw":
		return d.File, notDisk(d.File)
	case "qcow2":
	default:
		return "", fmt.Errorf(
			"it is a disk of the kind %s, and raw and qcow2 can be read: convert it with `qemu-img convert -O "+
				"qcow2 %s disk.qcow2`",
			kind,
			d.File,
		)
	}
	if err := alone(ctx, d.File); err != nil {
		return "", err
	}
	info, err := os.Stat(d.File)
	if err != nil {
		return "", err
	}
	raw := filepath.Join(p.Keep, fmt.Sprintf("%d-%d.raw", info.Size(), info.ModTime().UnixNano()))
	if _, err := os.Stat(raw); err == nil {
		return raw, nil
	}
	progress(Progress{Note: "unpacking the disk with qemu-img"})
	if _, err := qemuImg(ctx, "convert", "-f", "qcow2", "-O", "raw", "-S", "4k", d.File, raw+".new"); err != nil {
		return "", roomHint(fullDisk(errors.Join(err, os.Remove(raw+".new"))), p.Keep)
	}
	return raw, os.Rename(raw+".new", raw)
}

// alone returns an error for a disk that also consists of other files: a disk from elsewhere could name any file of
// this machine.
func alone(ctx context.Context, file string) error {
	out, err := qemuImg(ctx, "info", "-f", "qcow2", "--output=json", file)
	if err != nil {
		return err
	}
	var info struct {
		Backing string `json:"backing-filename"`
		Special struct {
			Data struct {
				File      string `json:"data-file"`
				Encrypted any    `json:"encrypt"`
			} `json:"data"`
		} `json:"format-specific"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		return fmt.Errorf("read the output of qemu-img info: %w", err)
	}
	other := info.Backing + info.Special.Data.File
	if other != "" {
		return fmt.Errorf(
			"it is a part only, of %s: make it whole with `qemu-img convert -O qcow2 %s whole.qcow2`",
			other,
			file,
		)
	}
	if info.Special.Data.Encrypted != nil {
		return errors.New("it is encrypted: decrypt it with `qemu-img convert`")
	}
	return nil
}

// qemuImg runs the program qemu-img and returns its output.
func qemuImg(ctx context.Context, args ...string) ([]byte, error) {
	path, err := exec.LookPath("qemu-img")
	if err != nil {
		return nil, errors.New(
			"qemu-img is not installed: install it (Debian, Ubuntu: package qemu-utils; Fedora: qemu-img)",
		)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.WaitDelay = 10 * time.Second
	var problem tail
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("qemu-img: %w: %s", command.Ended(ctx, err), problem.text())
	}
	return out, nil
}

// mountDisk finds the root file system of a disk and mounts it with the file systems that belong to it. It returns a
// remark for people on what is mounted.
func mountDisk(s *mount.Stack, raw string, parts []partition, at string) (string, error) {
	var seen []string
	for i, p := range parts {
		seen = append(seen, fmt.Sprintf("%d %s", p.number, p.kind))
		for _, data := range p.options() {
			var try mount.Stack
			if err := try.File(p.file(raw, data), at); err != nil {
				seen[i] = fmt.Sprintf("%d %s (%v)", p.number, p.kind, err)
				continue
			}
			if !isRoot(at) {
				seen[i] = fmt.Sprintf("%d %s%s", p.number, p.kind, unclean(p, data))
				if err := try.Close(); err != nil {
					return "", err
				}
				continue
			}
			*s = try
			where, err := mountMore(s, raw, parts, at)
			return fmt.Sprintf(
				"the root file system is on partition %d (%s)%s",
				p.number,
				p.kind,
				where+unclean(p, data),
			), err
		}
	}
	for _, p := range parts {
		if hint := p.hint(); hint != "" {
			return "", errors.New(hint)
		}
	}
	return "", fmt.Errorf(
		"no root file system was found on it: none with /etc/os-release among %s",
		strings.Join(seen, ", "),
	)
}

// isRoot reports whether a directory is the root of a system.
func isRoot(dir string) bool {
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// mountMore mounts the other partitions that the root's fstab names and that belong to an image.
func mountMore(s *mount.Stack, raw string, parts []partition, at string) (string, error) {
	root, err := os.OpenRoot(at)
	if err != nil {
		return "", err
	}
	defer root.Close()
	text, err := root.ReadFile("etc/fstab")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	where := ""
	for _, part := range ownParts { // parents come first
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 4 || f[1] != part {
				continue
			}
			p, ok := named(parts, f[0])
			if !ok {
				return where, fmt.Errorf(
					"its fstab mounts %s at %s, and that is not on this disk; copy the running machine with "+
						"`pando image capture`",
					f[0],
					part,
				)
			}
			if info, err := root.Lstat(strings.TrimPrefix(part, "/")); err != nil || !info.IsDir() {
				return where, fmt.Errorf("its fstab mounts %s at %s, where it has no directory", f[0], part)
			}
			options := p.options()
			for _, o := range strings.Split(f[3], ",") {
				if strings.HasPrefix(o, "subvol=") && p.kind == "btrfs" {
					options = []string{o}
				}
			}
			for i, data := range options {
				err := s.File(p.file(raw, data), filepath.Join(at, part))
				if err == nil {
					where += fmt.Sprintf(", %s on partition %d%s", part, p.number, unclean(p, data))
					break
				}
				if i == len(options)-1 {
					return where, err
				}
			}
		}
	}
	return where, nil
}
