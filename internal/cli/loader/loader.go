package loader

import (
	"cmp"
	"context"
	"io"
	"os"
	"path"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/netboot"
	"pando/internal/output"
)

// Command returns the command `loader`.
func Command(env *cmdenv.Env) *cobra.Command {
	return cmdenv.Noun(
		"loader",
		"Boot loaders: the builds of iPXE that machines are sent",
		loaderList(env),
		loaderShow(env),
		loaderImport(env),
		loaderDelete(env),
	)
}

func loaderList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list",
		Short: "List the boot loaders, one for each kind of firmware",
		Long: `List the boot loaders, one for each kind of firmware. DIGESTS says whether a loader verifies digests: with one that
does, kernel+initrd come from other nodes, too; with one that does not they come from the server alone. SIGNED says whether
it has a signature for Secure Boot, whoever made that.`,
		Args: cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			loaders, err := c.Loaders(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.LoaderList{Loaders: loaders})
			}
			t := output.NewTable(env.Out, "FIRMWARE", "FILE", "VERSION", "DIGESTS", "SIGNED", "SIZE", "FROM")
			for _, l := range loaders {
				size := output.SizeOf(int64(l.Size))
				t.Row(l.Firmware, l.File, l.Version, yesNo(l.Digests), yesNo(l.Signed), size, from(l))
			}
			t.Flush()
			return nil
		}),
	})
}

func loaderShow(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:               "show FIRMWARE",
		Short:             "Show the boot loader that machines with this firmware are sent",
		Example:           "  pando loader show efi-x64",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFirmware,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			l, err := c.Loader(ctx, args[0])
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, l)
			}
			output.Fields(
				env.Out,
				"firmware", l.Firmware,
				"file", l.File,
				"version", cmp.Or(l.Version, "it does not say"),
				"verifies digests", yesNo(l.Digests),
				"kernel+initrd", kernelFrom(l),
				"signed", yesNo(l.Signed),
				"size", output.SizeOf(int64(l.Size)),
				"SHA-256", l.SHA256,
				"imported", yesNo(l.Imported),
				"path on the server", l.From,
			)
			return nil
		}),
	})
}

func loaderImport(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "import FILE",
		Short: "Send machines this build of iPXE from now on",
		Long: `Send machines this build of iPXE from now on: one that verifies digests, one that is signed for Secure Boot, or one of
your own. The server looks at the file: firmware, version and what it can do are read from it. It keeps the file name that
machines ask for, and what was imported before for this firmware is replaced. "pando loader delete" goes back to the package's.`,
		Example: "  pando loader import snponly.efi",
		Args:    cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			data, err := read(args[0])
			if err != nil {
				return err
			}
			l, err := c.ImportLoader(ctx, data)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, l)
			}
			env.Printf("machines with %s firmware are sent this build as %s from now on", l.Firmware, l.File)
			if l.Version != "" {
				env.Printf(": iPXE %s", l.Version)
			}
			env.Printf("\nkernel+initrd come %s\n", kernelFrom(l))
			return nil
		}),
	})
}

func loaderDelete(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:               "delete FIRMWARE",
		Short:             "Delete an imported boot loader; machines are sent the package's again",
		Example:           "  pando loader delete efi-x64",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFirmware,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := c.DeleteLoader(ctx, args[0]); err != nil {
				return err
			}
			env.Printf("imported boot loader for %s firmware deleted; ", args[0])
			l, err := c.Loader(ctx, args[0])
			switch {
			case api.IsCode(err, api.NotFound):
				env.Printf("there is no other\n")
			case err != nil:
				return err
			default:
				env.Printf("machines are sent %s of %s\n", l.File, from(l))
			}
			return nil
		}),
	}
}

// read reads the file of an import, and of a larger one as much as the server needs to refuse it.
func read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, exitcode.AsUsage(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, netboot.MaxLoader+1))
	if err != nil {
		return nil, exitcode.AsUsage(err)
	}
	return data, nil
}

func completeFirmware(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, c := range netboot.Classes() {
		names = append(names, string(c))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// from says who brought a build.
func from(l api.Loader) string {
	switch dir := path.Dir(l.From); {
	case l.Imported:
		return "imported"
	case dir == debianDir:
		return "package ipxe"
	default:
		return dir
	}
}

// debianDir is where Debian's package ipxe puts its builds.
const debianDir = "/usr/lib/ipxe"

// kernelFrom says where kernel+initrd can come from with this loader.
func kernelFrom(l api.Loader) string {
	if l.Digests {
		return "from servers and from other nodes, verified"
	}
	return "from servers alone: it cannot verify what other nodes send"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
