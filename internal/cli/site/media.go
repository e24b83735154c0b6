package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/media"
	"pando/internal/output"
	"pando/internal/store"
)

// MediaCommand returns the command `media`.
func MediaCommand(env *cmdenv.Env) *cobra.Command {
	return cmdenv.Noun("media", "Boot media for machines without PXE", mediaCreate(env))
}

// defaultMedium is the size of an image file in bytes: it fits on a stick of 1 GB.
const defaultMedium = 960 << 20

// mediumFlags are the flags of `media create`.
type mediumFlags struct {
	output, erase string
	size          *output.Quantity
	control       []string
}

func mediaCreate(env *cmdenv.Env) *cobra.Command {
	f := mediumFlags{size: output.NewSize(0)}
	c := &cobra.Command{
		Use:   "create (NODES | @GROUP) --output FILE",
		Short: "Make a boot medium: a USB stick, or an image of one",
		Long: `Make a boot medium for machines that cannot boot from the network by themselves, with BIOS or UEFI. It asks the
servers as a machine with PXE does. When none answers it starts the kernel that is on the medium, and waits for a server with
that. All nodes must boot the same version; a group may have no nodes yet.

What is left of the medium is for the node's cache.`,
		Example: `  pando media create @lab --output stick.img
  pando media create pc017 --output /dev/sdb --erase /dev/sdb`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			return createMedium(env, ctx, c, args[0], f)
		}),
	}
	fl := c.Flags()
	fl.StringVar(&f.output, "output", "", "file to make, or a disk such as /dev/sdb")
	fl.StringVar(&f.erase, "erase", "", "the disk again, because all that is on it will be lost; a file is replaced")
	fl.Var(f.size, "size", "size of a file (default 960MiB); a disk is used whole")
	fl.StringArrayVar(
		&f.control,
		"control",
		nil,
		"control port of a server, such as https://10.0.0.1:8443 (default: this server's addresses)",
	)
	_ = c.MarkFlagRequired("output") // no error: the flag exists
	return c
}

func createMedium(env *cmdenv.Env, ctx context.Context, c *api.Client, nodes string, f mediumFlags) error {
	out, err := openMedium(f)
	if err != nil {
		return err
	}
	stream, err := c.CreateMedium(ctx, api.MediumCreate{Select: nodes, Size: out.size, Control: f.control})
	if err != nil {
		return errors.Join(err, out.discard())
	}
	defer stream.Close()
	n, err := media.Carry(out, out.size, stream)
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", f.output, err), out.discard())
	}
	if err := out.finish(); err != nil {
		return err
	}
	env.Printf(
		"%s is a boot medium for %s: %s written, %s are for the cache\n",
		f.output,
		nodes,
		output.Size(n),
		output.Size(media.CacheSize(out.size)),
	)
	return nil
}

// mediumFile is a disk, or a file that becomes the image of a disk.
type mediumFile struct {
	*os.File
	size    int64
	becomes string // the final name of a file; an older file of that name stays until the new one is complete
}

// openMedium opens the target. It accepts a disk only if --erase repeats its name.
func openMedium(f mediumFlags) (*mediumFile, error) {
	info, err := os.Stat(f.output)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular():
		return makeMedium(f, err == nil)
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeDevice:
		return nil, exitcode.Usagef("%s is neither a file nor a disk", f.output)
	case f.erase != f.output:
		return nil, exitcode.WithHint(
			exitcode.Usagef("%s is a disk, and all that is on it would be lost", f.output),
			"if that is meant: --erase "+f.output,
		)
	case f.size.N != 0:
		return nil, exitcode.Usagef("a disk is used whole: leave --size out")
	}
	// O_EXCL fails for a disk with a mounted partition.
	disk, err := os.OpenFile(f.output, os.O_RDWR|os.O_EXCL, 0)
	if err != nil {
		return nil, exitcode.WithHint(err, "is a partition of it mounted? see `lsblk "+f.output+"`")
	}
	end, err := disk.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	return &mediumFile{File: disk, size: end / media.Sector * media.Sector}, nil
}

func makeMedium(f mediumFlags, exists bool) (*mediumFile, error) {
	if exists && f.erase != f.output {
		return nil, exitcode.WithHint(exitcode.Usagef("%s exists", f.output), "to replace it: --erase "+f.output)
	}
	m := &mediumFile{size: defaultMedium, becomes: f.output}
	if f.size.N != 0 {
		m.size = f.size.N / media.Sector * media.Sector
	}
	var err error
	if m.File, err = os.CreateTemp(filepath.Dir(f.output), "."+filepath.Base(f.output)+".*"); err != nil {
		return nil, err
	}
	if err := m.Truncate(m.size); err != nil {
		return nil, errors.Join(err, m.discard())
	}
	return m, nil
}

// finish flushes the medium to disk, and gives a file its final name.
func (m *mediumFile) finish() error {
	if m.becomes == "" {
		return errors.Join(m.Sync(), m.Close())
	}
	if err := store.Replace(m.File, m.becomes, 0o644); err != nil {
		return errors.Join(err, os.Remove(m.Name()))
	}
	return nil
}

// discard removes an unfinished file.
func (m *mediumFile) discard() error {
	err := m.Close()
	if m.becomes != "" {
		err = errors.Join(err, os.Remove(m.Name()))
	}
	return err
}
