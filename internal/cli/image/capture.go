package image

import (
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/build"
	"pando/internal/build/source"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
)

// captureFlags are the flags of `image capture`.
type captureFlags struct {
	firmware, format, kernelFrom, release, ssh string
	kernelArgs, tags, drivers                  []string
	choice                                     choiceFlags
}

// options checks the flags.
func (f captureFlags) options(machine, builder string) (opt build.Options, err error) {
	if err := fleet.ValidKernelArgs(f.kernelArgs); err != nil {
		return opt, exitcode.AsUsage(err)
	}
	opt = build.Options{Firmware: f.firmware, CommandLine: f.kernelArgs, Builder: builder, Drivers: f.drivers,
		Kernel: f.release,
		Source: source.Machine{Remote: machine, SSH: strings.Fields(f.ssh), Choice: f.choice.Choice}}
	if opt.Format, err = formatOf(f.format); err != nil {
		return opt, err
	}
	if opt.KernelFrom, err = kernelSource(f.kernelFrom, "", "", 0); err != nil {
		return opt, exitcode.AsUsage(err)
	}
	return opt, nil
}

func imageCapture(env *cmdenv.Env) *cobra.Command {
	var f captureFlags
	c := &cobra.Command{
		Use:   "capture NAME MACHINE",
		Short: "Copy a running machine over ssh and make a version of it",
		Long: `Copy the root of a running machine over ssh and make a version of it, on the machine of the server. What must not travel is left
out, and said: host keys, machine-id, secrets, logs, caches, people's files; docs/images.md has the list. Interrupted, the same
command continues where it was. Both machines should have rsync; one without sends a tarball, from the beginning each time. A machine that
booted from Pando has its kernel elsewhere: --kernel-from names the image.`,
		Example: `  pando image capture lab root@pilot
  pando image capture lab root@pc001 --kernel-from lab
  pando image capture lab root@pilot --with /home/kiosk --exclude /srv/data --ssh "ssh -p 2222"`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := f.options(args[1], env.Release)
			if err != nil {
				return err
			}
			return buildFrom(env, cmd.Context(), args[0], f.tags, opt)
		},
	}
	fl := c.Flags()
	f.choice.add(fl)
	fl.StringVar(&f.ssh, "ssh", "ssh", "the program that leads there, with its options")
	fl.StringVar(
		&f.kernelFrom,
		"kernel-from",
		"",
		"image, directory, tarball or container image whose kernel and modules the copy gets",
	)
	addKernel(fl, &f.release)
	addDrivers(fl, &f.drivers)
	fl.StringVar(&f.format, "format", "auto", formatUsage())
	fl.StringVar(&f.firmware, "firmware", "", "directory with firmware files for drivers")
	fl.StringArrayVar(&f.kernelArgs, "kernel-arg", nil, "kernel argument that the image wants")
	fl.StringArrayVar(&f.tags, "tag", nil, "tag that moves to the new version, besides latest")
	return env.ReadFlags(c)
}
