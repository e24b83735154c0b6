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

func imageCapture(env *cmdenv.Env) *cobra.Command {
	var firmware, format, kernelFrom, release, ssh string
	var kernelArgs, tags []string
	var choice choiceFlags
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
			if err := fleet.ValidKernelArgs(kernelArgs); err != nil {
				return exitcode.AsUsage(err)
			}
			kind, err := formatOf(format)
			if err != nil {
				return err
			}
			kernel, err := kernelSource(kernelFrom, "", "", 0)
			if err != nil {
				return exitcode.AsUsage(err)
			}
			return buildFrom(env,
				cmd.Context(),
				args[0],
				tags,
				build.Options{Firmware: firmware, CommandLine: kernelArgs, Builder: env.Release,
					Format: kind, KernelFrom: kernel, Kernel: release,
					Source: source.Machine{Remote: args[1], SSH: strings.Fields(ssh), Choice: choice.Choice}},
			)
		},
	}
	fl := c.Flags()
	choice.add(fl)
	fl.StringVar(&ssh, "ssh", "ssh", "the program that leads there, with its options")
	fl.StringVar(
		&kernelFrom,
		"kernel-from",
		"",
		"image, directory, tarball or container image whose kernel and modules the copy gets",
	)
	addKernel(fl, &release)
	fl.StringVar(&format, "format", "auto", formatUsage())
	fl.StringVar(&firmware, "firmware", "", "directory with firmware files for drivers")
	fl.StringArrayVar(&kernelArgs, "kernel-arg", nil, "kernel argument that the image wants")
	fl.StringArrayVar(&tags, "tag", nil, "tag that moves to the new version, besides latest")
	return env.ReadFlags(c)
}
