package image

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/output"
)

// Command returns the command `image`. others are verbs that other packages make.
func Command(env *cmdenv.Env, others ...*cobra.Command) *cobra.Command {
	c := cmdenv.Noun(
		"image",
		"What nodes boot: names, versions, tags",
		imageBuild(env),
		imageCapture(env),
		imageShell(env),
		imageExtend(env),
		imageList(env),
		imageShow(env),
		imageTrace(env),
		imageHistory(env),
		imageDiff(env),
		imageSlim(env),
		imageTag(env),
		imagePush(env),
		imagePull(env),
		imageDelete(env),
	)
	c.AddCommand(others...)
	return c
}

func imageList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list",
		Short: "List images with their versions, newest first",
		Args:  cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			images, err := c.Images(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.ImageList{Images: images})
			}
			t := output.NewTable(env.Out, "IMAGE", "TAGS", "VERSION", "KERNEL", "SIZE", "STORED", "BUILT", "IN USE BY")
			for _, i := range images {
				for _, v := range i.Versions {
					t.Row(
						i.Name,
						strings.Join(v.Tags, " "),
						v.Digest.Short(),
						v.Kernel,
						output.SizeOf(v.RootSize),
						output.SizeOf(v.StoredSize),
						output.Time(v.Built),
						output.Few(v.InUse),
					)
				}
			}
			t.Flush()
			return nil
		}),
	})
}

func imageShow(env *cmdenv.Env) *cobra.Command {
	sbom := false
	c := &cobra.Command{
		Use:   "show IMAGE",
		Short: "Show an image, or one version of it",
		Example: `  pando image show lab
  pando image show lab:stable --sbom > lab.spdx.json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteImages,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if sbom {
				return printSBOM(env, ctx, c, fleet.Ref(args[0]))
			}
			i, err := cmdenv.FindImage(ctx, c, args[0])
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, i)
			}
			printImage(env, i)
			return nil
		}),
	}
	c.Flags().
		BoolVar(&sbom, "sbom", false, "print the bill of materials of one version: its packages, SPDX 2.3 in JSON")
	return env.ReadFlags(c)
}

func printSBOM(env *cmdenv.Env, ctx context.Context, c *api.Client, ref fleet.Ref) error {
	b, err := c.ImageSBOM(ctx, ref)
	if err != nil {
		return err
	}
	return output.JSON(env.Out, b)
}

func printImage(env *cmdenv.Env, i api.Image) {
	for n, v := range i.Versions {
		if n > 0 {
			env.Printf("\n")
		}
		output.Fields(
			env.Out,
			"image",
			i.Name,
			"version",
			string(v.Digest),
			"tags",
			strings.Join(v.Tags, " "),
			"in use by",
			strings.Join(v.InUse, ", "),
			"architecture",
			v.Architecture,
			"kernel",
			strings.TrimSpace(v.Kernel+"  "+output.SizeOf(v.KernelSize)),
			"drivers",
			output.SizeOf(v.DriversSize),
			"root",
			strings.TrimSpace(output.SizeOf(v.RootSize)+"  "+v.FileSystem),
			"stored",
			output.SizeOf(v.StoredSize),
			"files",
			output.Count(int(v.Files)),
			"built",
			output.Time(v.Built),
			"recipe",
			v.Recipe,
			"slower",
			v.Slower,
			"logs",
			v.NoLogs,
		)
	}
}

func imageTag(env *cmdenv.Env) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "tag IMAGE TAG",
		Short: "Point a tag at a version; nodes that follow it get it at their next boot",
		Example: `  pando image tag lab:latest stable
  pando image tag lab@sha256:0123... stable --dry-run`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: env.CompleteImages,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			name, _, _, err := fleet.Ref(args[0]).Split()
			if err != nil {
				return exitcode.AsUsage(err)
			}
			ch, err := c.SetTag(ctx, name, args[1], api.TagSet{Ref: fleet.Ref(args[0]), DryRun: dryRun})
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, ch)
			}
			was := ch.Was.Short()
			if was == "" {
				was = "new"
			}
			who := fmt.Sprintf("the next boot of %d nodes differs", len(ch.Nodes))
			if len(ch.Follow) > 0 {
				who = fmt.Sprintf("%d nodes have it as an extension: those that run follow at once", len(ch.Follow))
			}
			env.Printf("%s:%s: %s -> %s; %s\n", ch.Tag.Image, ch.Tag.Tag, was, ch.Tag.Version.Short(), who)
			if dryRun {
				env.Printf("nothing was done\n")
			}
			return nil
		}),
	}
	env.WriteFlags(c, &dryRun)
	return c
}

func imageDelete(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "delete IMAGE:TAG | IMAGE@VERSION",
		Short: "Remove a tag that nothing follows, or a version that nothing holds",
		Long: `Remove a tag that nothing follows; the version stays. Or take a version from an image, unless a tag, a group or a node
holds it; its files go with the next ` + "`pando store gc`" + `.`,
		Example: `  pando image delete lab:old
  pando image delete lab@sha256:0123...`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteImages,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			name, tag, _, err := fleet.Ref(args[0]).Split()
			if err == nil && !strings.ContainsAny(args[0], ":@") {
				err = errors.New("name what to delete: IMAGE:TAG or IMAGE@VERSION")
			}
			if err != nil {
				return exitcode.AsUsage(err)
			}
			if tag == "" {
				digest, err := cmdenv.FindVersion(ctx, c, args[0])
				if err != nil {
					return err
				}
				if err := c.DeleteVersion(ctx, name, digest); err != nil {
					return err
				}
				env.Printf(
					"version %s of %s deleted; its files go with the next `pando store gc`\n",
					digest.Short(),
					name,
				)
				return nil
			}
			if err := c.DeleteTag(ctx, name, tag); err != nil {
				return err
			}
			env.Printf("tag %s deleted\n", args[0])
			return nil
		}),
	}
}
