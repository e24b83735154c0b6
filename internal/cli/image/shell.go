package image

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/build"
	"pando/internal/buildrun"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/mount"
	"pando/internal/terminal"
)

// shellFlags are the flags of `image shell`.
type shellFlags struct {
	firmware, kernel string
	kernelArgs, tags []string
	drivers          []string
	resume, fresh    bool
}

// into is how the flags change the build.
func (f shellFlags) into(o *build.Options) {
	o.Firmware, o.Kernel, o.CommandLine, o.Drivers = f.firmware, f.kernel, f.kernelArgs, f.drivers
}

func imageShell(env *cmdenv.Env) *cobra.Command {
	var f shellFlags
	c := &cobra.Command{
		Use:   "shell IMAGE [-- COMMAND [ARG...]]",
		Short: "Change an image from inside: a shell or one command in a copy of it; what it leaves is a new version",
		Long: `Run a shell, or one command, in a writable copy of a version, as root, with the network of this machine. If it ends with
status 0 (` + "`exit`" + `), the copy becomes a new version and the tag "latest" moves to it; otherwise (` + "`exit 1`" + `) nothing is made. The
version that was copied stays, and nodes that run it notice nothing. Works on the machine of the server.`,
		Example: `  pando image shell lab
  pando image shell lab:stable -- sh -c 'apt-get update && apt-get -y upgrade'`,
		Args:              imageAndCommand,
		ValidArgsFunction: env.CompleteImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			return shellImage(env, cmd.Context(), args[0], args[1:], f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.firmware, "firmware", "", "directory with firmware files for drivers")
	addKernel(fl, &f.kernel)
	addDrivers(fl, &f.drivers)
	fl.StringArrayVar(&f.kernelArgs, "kernel-arg", nil, "kernel argument that the image wants, after those that it has")
	fl.StringArrayVar(&f.tags, "tag", nil, "tag that moves to the new version, besides latest")
	fl.BoolVar(&f.resume, "continue", false, "go on with a change that could not be stored, for want of room say")
	fl.BoolVar(&f.fresh, "fresh", false, "throw such a change away")
	return env.ReadFlags(c)
}

// imageAndCommand accepts one image, optionally followed by "--" and a command.
func imageAndCommand(c *cobra.Command, args []string) error {
	if dash := c.ArgsLenAtDash(); len(args) == 0 || dash == 0 || dash < 0 && len(args) > 1 || dash > 1 {
		return errors.New("want one image, and a command after --")
	}
	return nil
}

func shellImage(env *cmdenv.Env, ctx context.Context, ref string, command []string, f shellFlags) error {
	name, _, _, err := fleet.Ref(ref).Split()
	if err == nil {
		err = fleet.ValidKernelArgs(f.kernelArgs)
	}
	if err != nil {
		return exitcode.AsUsage(err)
	}
	if f.resume && f.fresh {
		return exitcode.Usagef("give either --continue or --fresh")
	}
	if env.Server == "" && os.Geteuid() == 0 { // a check below refuses others, and says why
		if err := mount.Private(); err != nil {
			return err
		}
	}
	b, err := openBuilder(env, ctx, name, f.tags)
	if err != nil {
		return err
	}
	defer b.close()
	version, err := cmdenv.FindVersion(ctx, b.client, ref)
	if err != nil {
		return err
	}
	f.into(&b.options)
	opt := build.ChangeOptions{
		Image:   name,
		Version: version,
		Command: inside(env, command),
		Resume:  f.resume,
		Fresh:   f.fresh,
	}
	if terminal.Of(os.Stdin) != nil && len(command) == 0 {
		opt.Keep = func(status int) bool { return askToKeep(env, status) }
		fmt.Fprintf(
			env.Err,
			"You are root in a copy of %s (%s). `exit` makes a new version of it, `exit 1` throws it away.\n",
			ref,
			version.Short(),
		)
	}
	result, err := b.run(buildrun.Steps(), func(o build.Options) (build.Result, error) {
		opt.Build = o
		return build.Change(ctx, opt)
	})
	if err != nil {
		return shellHint(err)
	}
	return b.publish(ctx, result)
}

// inside returns the command that runs in the copy. It has this terminal, and this machine's name servers and proxy.
func inside(env *cmdenv.Env, command []string) mount.Command {
	c := mount.Command{Args: command, Dir: "/root", Stdin: os.Stdin,
		Stdout: terminal.Raw(env.Err), Stderr: terminal.Raw(env.Err),
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME=/root",
			"USER=root",
			"LOGNAME=root",
			"SHELL=/bin/sh",
			"LANG=C.UTF-8",
			"INITRD=No",
		}} // INITRD=No: Debian's kernel packages then make no initrd; nodes boot Pando's
	if !env.JSON {
		c.Stdout = terminal.Raw(env.Out)
	}
	if len(command) == 0 {
		c.Args = []string{"sh", "-c", "if command -v bash >/dev/null; then exec bash; fi; exec sh"}
	}
	if terminal.Of(os.Stdin) == nil {
		c.Env = append(c.Env, "DEBIAN_FRONTEND=noninteractive")
	}
	for _, name := range []string{"TERM", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY",
		"NO_PROXY"} {
		if value, ok := os.LookupEnv(name); ok {
			c.Env = append(c.Env, name+"="+value)
		}
	}
	c.Resolver, _ = os.ReadFile("/etc/resolv.conf") // without the file the copy has no name servers
	return c
}

// askToKeep asks whether to keep the change. A shell ends with the status of its last command, which may not mean
// failure.
func askToKeep(env *cmdenv.Env, status int) bool {
	fmt.Fprintf(env.Err, "The shell ended with status %d. Make a version of the copy all the same? [y/N] ", status)
	answer, err := bufio.NewReader(env.In).ReadString('\n')
	return (err == nil || errors.Is(err, io.EOF)) && strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y")
}

// shellHint adds a hint to an error: whether the change was kept, and how to continue.
func shellHint(err error) error {
	var exit *mount.ExitError
	var unfinished *build.UnfinishedError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &exit):
		return exitcode.WithHint(err, "no version was made, and the image is as it was")
	case errors.As(err, &unfinished):
		return exitcode.WithHint(err, "--continue goes on with it, --fresh throws it away")
	}
	return exitcode.WithHint(
		err,
		"no version was made; if the command had ended well, its changes are kept: fix that and run it with "+
			"--continue",
	)
}
