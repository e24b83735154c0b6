package writelayer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/disk"
	"pando/internal/ext4"
	"pando/internal/fleet"
	"pando/internal/hardware"
	"pando/internal/problem"
	"pando/internal/trace"
)

// keptName is a file beside the upper directory that names the version that the kept changes belong to.
const keptName = "version"

// errNoWriteDisk means that the node has no partition for a write layer. Its hint says how to make one.
var errNoWriteDisk = &problem.Problem{Err: errors.New("no partition is called " + fleet.WritePartition),
	Hint: "give a partition of the node that name (`sgdisk -n 1:0:0 -c 1:" + fleet.WritePartition + " /dev/sdX`): " +
		"what is on it is lost"}

// diskLayer mounts the write partition. It uses kept changes only over the version that they were made on, because
// overlayfs is undefined with another lower layer.
func (w *Layer) diskLayer(ctx context.Context, l fleet.WriteLayer, fresh bool) (layer, error) {
	name, err := w.writeDisk(ctx)
	if err != nil {
		return layer{}, err
	}
	device := "/dev/" + name
	used := layer{WriteLayer: l, text: fmt.Sprintf("up to %d MB on %s", disk.Size(hardware.Sysfs, name)/1e6, device)}
	has, err := mayWrite(device)
	if err != nil {
		return used, err
	}
	if l.Keep && has && !fresh {
		why, err := w.mountKept(ctx, device)
		if err == nil && why == "" {
			used.kept = true
			used.text += ", with what was kept"
			return used, nil
		}
		_ = unix.Unmount(w.Upper, unix.MNT_DETACH)
		if err != nil {
			why = err.Error()
		}
		w.Tell(
			trace.Event{
				Stage:   trace.Root,
				Kind:    trace.Info,
				Message: "what was kept on " + device + " is wiped: " + why,
			},
		)
	}
	return used, w.mountFresh(ctx, device, l.Keep)
}

// writeDisk returns the name of the write partition.
func (w *Layer) writeDisk(ctx context.Context) (string, error) {
	name, err := w.FindDisk(ctx, func() string {
		return partitionCalled(hardware.Sysfs, fleet.WritePartition, disk.BlockDevices(hardware.Sysfs))
	})
	if err != nil {
		return "", err
	}
	if name == "" {
		return "", errNoWriteDisk
	}
	return name, nil
}

// partitionCalled returns the first of names that has this name in its partition table, "" if there is none.
func partitionCalled(sys, called string, names []string) string {
	for _, n := range names {
		if disk.PartitionName(sys, n) == called {
			return n
		}
	}
	return ""
}

// mayWrite reports whether a partition has a write layer. It returns an error if the partition has other content: the
// partition may have got its name by mistake.
func mayWrite(device string) (has bool, err error) {
	f, err := os.Open(device)
	if err != nil {
		return false, err
	}
	defer f.Close()
	content := disk.ContentOf(f)
	label := make([]byte, 16)
	if content == "ext4" {
		if _, err := f.ReadAt(label, 1024+120); err != nil {
			return false, err
		}
	}
	return layerOn(device, content, string(bytes.TrimRight(label, "\x00")))
}

// layerOn is mayWrite for content and label that were read.
func layerOn(device, content, label string) (has bool, err error) {
	switch {
	case content == "":
		return false, nil
	case content == "ext4" && label == fleet.WritePartition:
		return true, nil
	}
	return false, &problem.Problem{
		Err: fmt.Errorf(
			"%s, which is called %s, has %s on it that is no write layer",
			device,
			fleet.WritePartition,
			content,
		),
		Hint: "`wipefs -a " + device + "` on the node if it may be lost",
	}
}

// mountKept mounts the kept changes, or returns why this boot cannot use them.
func (w *Layer) mountKept(ctx context.Context, device string) (why string, err error) {
	if err := w.lowerModule(ctx, "ext4"); err != nil {
		return "", err
	}
	if err := mountLayer(device, w.Upper, ""); err != nil {
		return "", err
	}
	record, _ := os.ReadFile(filepath.Join(w.Upper, keptName)) // without it the layer is incomplete
	return notKept(string(record), w.keptRecord()), nil
}

// keptRecord returns the content of the keptName file for this boot.
func (w *Layer) keptRecord() string {
	return string(w.version) + "\n" + overlayOptions + "\n"
}

// notKept returns why changes with this record cannot be used by a boot that wants another record, "" if they can.
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

// mountFresh makes a file system and mounts it. It writes the record last. A layer that is not kept needs no journal
// and no barriers.
func (w *Layer) mountFresh(ctx context.Context, device string, keep bool) error {
	if err := w.lowerModule(ctx, "ext4"); err != nil {
		return err
	}
	options := ""
	if !keep {
		options = "nobarrier,noinit_itable"
	}
	if err := Make(device, ext4.Options{Label: fleet.WritePartition, Journal: keep}); err != nil {
		return fmt.Errorf("make ext4 on %s: %w", device, err)
	}
	err := mountLayer(device, w.Upper, options)
	if err != nil || !keep {
		return err
	}
	name := filepath.Join(w.Upper, keptName)
	if err := os.WriteFile(name+".new", []byte(w.keptRecord()), 0o600); err != nil {
		return err
	}
	unix.Sync()
	return os.Rename(name+".new", name)
}
