package boot

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// defaultWriteLimit is the size of memory that takes what the node writes: half of all.
const defaultWriteLimit = "50%"

// overlayOptions are the overlay's options beside its directories; docs/adr/0001-overlay-options.md says
// why each is on, and why others are not.
const overlayOptions = "redirect_dir=on,index=on,metacopy=on,xino=on"

// mountOverlay mounts the overlay at newRoot, over a write layer that is mounted and has dir on it. The mounts below it are
// then taken out of sight: the overlay holds them, and nothing else has any business there.
func mountOverlay(dir string) error {
	for _, d := range []string{dir + "/upper", dir + "/work"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	data := "lowerdir=" + lowerDir + ",upperdir=" + dir + "/upper,workdir=" + dir + "/work," + overlayOptions
	if err := unix.Mount("overlay", newRoot, "overlay", unix.MS_NOATIME, data); err != nil {
		return fmt.Errorf("mount overlay (%s): %w", overlayOptions, err)
	}
	for _, d := range []string{upperDir, lowerDir} {
		if err := unix.Unmount(d, 0); err != nil {
			return fmt.Errorf("hide %s: %w", d, err)
		}
	}
	return nil
}
