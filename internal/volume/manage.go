package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// alone runs do while no node is connected to the volume. For an attached volume it returns ErrAttached, unless pause
// is set: then the node is disconnected, waits, and connects again.
func (d *Dir) alone(ctx context.Context, name string, pause bool, do func(ctx context.Context) error) error {
	v := d.of(name)
	if v.attached() && !pause {
		return fmt.Errorf("volume %s: %w", name, ErrAttached)
	}
	ctx, give, err := v.take(ctx)
	if err != nil {
		return err
	}
	defer give()
	endStale(filepath.Join(d.path, name+".pid"), name+".sock")
	if err := do(ctx); err != nil {
		return fmt.Errorf("volume %s: %w", name, err)
	}
	return nil
}

// has returns nil if there is a volume, else ErrNone.
func (d *Dir) has(name string) error {
	if _, err := os.Stat(d.file(name)); errors.Is(err, fs.ErrNotExist) {
		return ErrNone
	} else if err != nil {
		return err
	}
	return nil
}

// Snapshot keeps a volume's content under a name, in the state that a power cut would leave. A connected node waits for
// a moment.
func (d *Dir) Snapshot(ctx context.Context, name, snapshot string) error {
	return d.alone(ctx, name, true, func(ctx context.Context) error {
		if err := d.has(name); err != nil {
			return err
		}
		return run(ctx, "qemu-img", "snapshot", "-q", "-c", snapshot, d.file(name))
	})
}

// Restore sets a volume back to a snapshot.
func (d *Dir) Restore(ctx context.Context, name, snapshot string) error {
	return d.alone(ctx, name, false, func(ctx context.Context) error {
		if err := d.has(name); err != nil {
			return err
		}
		return run(ctx, "qemu-img", "snapshot", "-q", "-a", snapshot, d.file(name))
	})
}

// Reset removes a volume. Its node gets a new one with the image's content.
func (d *Dir) Reset(ctx context.Context, name string) error {
	return d.alone(ctx, name, false, func(context.Context) error {
		if err := d.has(name); err != nil {
			return err
		}
		return os.Remove(d.file(name))
	})
}

// Copy makes volume `to` a copy of `from`, without the snapshots. A node that uses `from` waits meanwhile.
func (d *Dir) Copy(ctx context.Context, from, to string) error {
	return d.alone(ctx, to, false, func(ctx context.Context) error {
		return d.alone(ctx, from, true, func(ctx context.Context) error {
			if err := d.has(from); err != nil {
				return err
			}
			fresh := filepath.Join(d.path, to+".new")
			defer os.Remove(fresh)
			if err := run(ctx, "qemu-img", "convert", "-q", "-f", "qcow2", "-O", "qcow2", d.file(from),
				fresh); err != nil {
				return err
			}
			return put(fresh, d.file(to))
		})
	})
}

// Rename gives a volume a new name, which no volume may have. A connected node is disconnected.
func (d *Dir) Rename(ctx context.Context, from, to string) error {
	return d.alone(ctx, from, true, func(context.Context) error {
		if err := d.has(from); err != nil {
			return err
		}
		if d.has(to) == nil {
			return fmt.Errorf("rename to %s: %w", to, fs.ErrExist)
		}
		return put(d.file(from), d.file(to))
	})
}
