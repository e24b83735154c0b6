package writelayer

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// overlayOptions are the overlay's options besides its directories. docs/adr/0001-overlay-options.md gives the
// reasons.
const overlayOptions = "redirect_dir=on,index=on,metacopy=on,xino=on"

// mountMemory mounts an empty tmpfs as the write layer.
func mountMemory(upper, limit string) error {
	if err := unix.Mount("tmpfs", upper, "tmpfs", unix.MS_NOATIME, "mode=0755,size="+limit); err != nil {
		return fmt.Errorf("mount tmpfs of %s for the node's writes: %w", limit, err)
	}
	return nil
}

// mountOverlay mounts the overlay at its root, and then detaches the mounts below it. The overlay keeps them in use,
// and no other program can reach them.
func (w *Layer) mountOverlay() error {
	for _, d := range []string{w.Upper + "/upper", w.Upper + "/work"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	data := "lowerdir=" + w.Lower + ",upperdir=" + w.Upper + "/upper,workdir=" + w.Upper + "/work," + overlayOptions
	if err := unix.Mount("overlay", w.Root, "overlay", unix.MS_NOATIME, data); err != nil {
		return fmt.Errorf("mount overlay (%s): %w", overlayOptions, err)
	}
	for _, d := range []string{w.Upper, w.Lower} {
		if err := unix.Unmount(d, 0); err != nil {
			return fmt.Errorf("hide %s: %w", d, err)
		}
	}
	return nil
}
