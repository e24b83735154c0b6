package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"pando/internal/ext4"
	"pando/internal/fleet"
	"pando/internal/trace"

	"golang.org/x/sys/unix"
)

// keptName is the file beside the upper directory that says what it belongs to.
const keptName = "version"

// errNoWriteDisk has the hint with which a person makes one.
var errNoWriteDisk = &Problem{Err: errors.New("no partition is called " + fleet.WritePartition),
	Hint: "give a partition of the node that name (`sgdisk -n 1:0:0 -c 1:" + fleet.WritePartition + " /dev/sdX`): " +
		"what is on it is lost"}

// diskLayer mounts the partition that takes the node's writes. What was kept there is used if it was written over
// the same version: over another one the kernel's overlay says of it that anything may happen.
func (m *machine) diskLayer(ctx context.Context, l fleet.WriteLayer, fresh bool) (layer, error) {
	name, err := m.writeDisk(ctx)
	if err != nil {
		return layer{}, err
	}
	device := "/dev/" + name
	used := layer{WriteLayer: l, text: fmt.Sprintf("up to %d MB on %s", diskSize(sysfs, name)/1e6, device)}
	has, err := mayWrite(device)
	if err != nil {
		return used, err
	}
	if l.Keep && has && !fresh {
		why, err := m.mountKept(ctx, device)
		if err == nil && why == "" {
			used.kept = true
			used.text += ", with what was kept"
			return used, nil
		}
		_ = unix.Unmount(m.at.upper, unix.MNT_DETACH)
		if err != nil {
			why = err.Error()
		}
		m.event(
			trace.Event{
				Stage:   trace.Root,
				Kind:    trace.Info,
				Message: "what was kept on " + device + " is wiped: " + why,
			},
		)
	}
	return used, m.mountFresh(ctx, device, l.Keep)
}

// writeDisk finds the partition for what is written. It waits for the drivers of disks, as a boot without a cache's
// disk does not, and then looks once more, because the cache may have been found before.
func (m *machine) writeDisk(ctx context.Context) (string, error) {
	find := func() string { return partitionCalled(sysfs, fleet.WritePartition, blockDevices(sysfs)) }
	name := find()
	if name == "" && m.disks != nil {
		err := m.disks.wait(ctx)
		if err != nil {
			err = m.disks.wait(ctx) // USB takes its time
		}
		if err != nil {
			return "", err
		}
		name = find()
	}
	if name == "" && m.disks != nil && m.disks.name != "" {
		loader, err := m.diskLoader()
		if err != nil {
			return "", err
		}
		if name, err = look(ctx, loader, find); err != nil {
			return "", err
		}
	}
	if name == "" {
		return "", errNoWriteDisk
	}
	return name, nil
}

// partitionCalled is the first device of a name in its partition table, "" for none.
func partitionCalled(sys, called string, names []string) string {
	for _, n := range names {
		if partitionName(sys, n) == called {
			return n
		}
	}
	return ""
}

// mayWrite tells whether a partition has a write layer, and refuses one that has something else: who gave it the
// name may have meant another.
func mayWrite(device string) (has bool, err error) {
	f, err := os.Open(device)
	if err != nil {
		return false, err
	}
	defer f.Close()
	content := contentOf(f)
	label := make([]byte, 16)
	if content == "ext4" {
		if _, err := f.ReadAt(label, 1024+120); err != nil {
			return false, err
		}
	}
	return layerOn(device, content, string(bytes.TrimRight(label, "\x00")))
}

// layerOn is mayWrite for what was read.
func layerOn(device, content, label string) (has bool, err error) {
	switch {
	case content == "":
		return false, nil
	case content == "ext4" && label == fleet.WritePartition:
		return true, nil
	}
	return false, &Problem{
		Err: fmt.Errorf(
			"%s, which is called %s, has %s on it that is no write layer",
			device,
			fleet.WritePartition,
			content,
		),
		Hint: "`wipefs -a " + device + "` on the node if it may be lost",
	}
}

// mountKept mounts what was kept, or says why it is not for this boot.
func (m *machine) mountKept(ctx context.Context, device string) (why string, err error) {
	if err := m.lowerModule(ctx, "ext4"); err != nil {
		return "", err
	}
	if err := mountLayer(device, m.at.upper, ""); err != nil {
		return "", err
	}
	record, _ := os.ReadFile(filepath.Join(m.at.upper, keptName)) // none: it was broken off when it was made
	return notKept(string(record), m.keptRecord()), nil
}

// keptRecord says what an upper directory belongs to.
func (m *machine) keptRecord() string {
	return string(m.assigned().Version) + "\n" + overlayOptions + "\n"
}

// notKept is why what was kept by a record cannot be used by another; "": it can.
func notKept(record, want string) string {
	switch was, _, whole := strings.Cut(record, "\n"); {
	case record == want:
		return ""
	case !whole:
		return "it is not whole"
	case strings.HasPrefix(want, was+"\n"):
		return "Pando mounts it otherwise by now"
	default:
		return fmt.Sprintf("it belongs to version %s", fleet.Digest(was).Short())
	}
}

// mountFresh makes a file system and mounts it. It has its record when it is whole. One that is wiped needs no
// journal and no barriers.
func (m *machine) mountFresh(ctx context.Context, device string, keep bool) error {
	if err := m.lowerModule(ctx, "ext4"); err != nil {
		return err
	}
	options := ""
	if !keep {
		options = "nobarrier,noinit_itable"
	}
	if err := makeLayer(device, ext4.Options{Label: fleet.WritePartition, Journal: keep}); err != nil {
		return fmt.Errorf("make ext4 on %s: %w", device, err)
	}
	err := mountLayer(device, m.at.upper, options)
	if err != nil || !keep {
		return err
	}
	name := filepath.Join(m.at.upper, keptName)
	if err := os.WriteFile(name+".new", []byte(m.keptRecord()), 0o600); err != nil {
		return err
	}
	unix.Sync()
	return os.Rename(name+".new", name)
}
