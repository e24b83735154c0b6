package writelayer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/ext4"
	"pando/internal/fleet"
	"pando/internal/hardware"
)

// zramControl is the sysfs directory that adds and removes zram devices.
const zramControl = "/sys/class/zram-control"

// zramOptions are ext4's mount options on zram: freed blocks are returned at once, and the device is zeroed already.
const zramOptions = "discard,noinit_itable"

// zramLayer mounts a file system on a new zram device.
func (w *Layer) zramLayer(ctx context.Context, l fleet.WriteLayer, limit string) (layer, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return layer{}, fmt.Errorf("how much memory is there: %w", err)
	}
	size, err := layerSize(limit, int64(info.Totalram)*int64(info.Unit))
	if err != nil {
		return layer{}, err
	}
	device, packs, err := w.zramDevice(ctx, size)
	if err == nil {
		err = Make(device, ext4.Options{Label: fleet.WritePartition})
	}
	if err == nil {
		err = mountLayer(device, w.Upper, zramOptions)
	}
	if err != nil {
		w.dropZram()
		return layer{}, err
	}
	return layer{
		WriteLayer: l,
		text:       fmt.Sprintf("up to %d MB in compressed memory (%s, %s)", size/1e6, filepath.Base(device), packs),
	}, nil
}

// zramDevice makes a zram device of size bytes, and returns its path and its compression. It removes the device of an
// earlier attempt.
func (w *Layer) zramDevice(ctx context.Context, size int64) (device, packs string, err error) {
	w.dropZram()
	if err := w.lowerModule(ctx, "ext4"); err != nil {
		return "", "", err
	}
	if _, err := os.Stat(zramControl); errors.Is(err, fs.ErrNotExist) {
		if err := w.lowerModule(ctx, "zram", "num_devices=0"); err != nil {
			return "", "", err
		}
	}
	data, err := os.ReadFile(filepath.Join(zramControl, "hot_add"))
	if err != nil {
		return "", "", fmt.Errorf("ask for a device of compressed memory: %w", err)
	}
	w.zram = strings.TrimSpace(string(data))
	dir := "/sys/block/zram" + w.zram
	for _, how := range []string{"zstd", "lz4"} {
		_ = w.lowerModule(ctx, "crypto-"+how) // fails if the kernel has it in zram itself
		if os.WriteFile(dir+"/comp_algorithm", []byte(how), 0) == nil {
			break
		}
	}
	if err := os.WriteFile(dir+"/disksize", []byte(strconv.FormatInt(size, 10)), 0); err != nil {
		return "", "", fmt.Errorf("make a device of %d bytes of compressed memory: %w", size, err)
	}
	return "/dev/zram" + w.zram, chosen(hardware.SysValue(dir, "comp_algorithm")), nil
}

// dropZram removes the device of a failed attempt.
func (w *Layer) dropZram() {
	if w.zram != "" {
		_ = os.WriteFile(
			filepath.Join(zramControl, "hot_remove"),
			[]byte(w.zram),
			0,
		) // on failure an empty device remains, which needs no memory
		w.zram = ""
	}
}

// chosen returns the word in brackets of a list such as "lzo [zstd] lz4".
func chosen(list string) string {
	_, after, _ := strings.Cut(list, "[")
	word, _, _ := strings.Cut(after, "]")
	return word
}

// Make makes the ext4 file system of a write layer.
func Make(device string, o ext4.Options) error {
	f, err := os.OpenFile(device, os.O_RDWR|unix.O_EXCL, 0) // what is mounted is refused
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		return err
	}
	o.Now = time.Now().Unix()
	if err := ext4.Make(f, size, o); err != nil {
		return err
	}
	return f.Sync()
}

func mountLayer(device, at, options string) error {
	if err := unix.Mount(device, at, "ext4", unix.MS_NOATIME, options); err != nil {
		return fmt.Errorf("mount ext4 on %s: %w", device, err)
	}
	return nil
}
