package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/fleet"
)

func (a *app) imageCommand() *cobra.Command {
	return noun(
		"image",
		"What nodes boot: names, versions, tags",
		a.imageBuild(),
		a.imageCapture(),
		a.imageShell(),
		a.imageExtend(),
		a.imageList(),
		a.imageShow(),
		a.imageTrace(),
		a.imageHistory(),
		a.imageDiff(),
		a.imageSlim(),
		a.imageVerify(),
		a.imageTag(),
		a.imagePush(),
		a.imagePull(),
		a.imageDelete(),
	)
}

func (a *app) imageList() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:   "list",
		Short: "List images with their versions, newest first",
		Args:  cobra.NoArgs,
		RunE: a.call(func(ctx context.Context, c *api.Client, _ []string) error {
			images, err := c.Images(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, api.ImageList{Images: images})
			}
			t := newTable(a.out, "IMAGE", "TAGS", "VERSION", "KERNEL", "SIZE", "STORED", "BUILT", "IN USE BY")
			for _, i := range images {
				for _, v := range i.Versions {
					t.row(
						i.Name,
						strings.Join(v.Tags, " "),
						v.Digest.Short(),
						v.Kernel,
						sizeOf(v.RootSize),
						sizeOf(v.StoredSize),
						clock(v.Built),
						holders(v.InUse),
					)
				}
			}
			t.flush()
			return nil
		}),
	})
}

// holders is a short form of what holds a version.
func holders(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:2], ", ") + " and " + strconv.Itoa(len(names)-2) + " more"
	}
	return strings.Join(names, ", ")
}

func (a *app) imageShow() *cobra.Command {
	sbom := false
	c := &cobra.Command{
		Use:   "show IMAGE",
		Short: "Show an image, or one version of it",
		Example: `  pando image show lab
  pando image show lab:stable --sbom > lab.spdx.json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if sbom {
				return a.printSBOM(ctx, c, fleet.Ref(args[0]))
			}
			i, err := showRef(ctx, c, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, i)
			}
			a.printImage(i)
			return nil
		}),
	}
	c.Flags().
		BoolVar(&sbom, "sbom", false, "print the bill of materials of one version: its packages, SPDX 2.3 in JSON")
	return a.readFlags(c)
}

func (a *app) printSBOM(ctx context.Context, c *api.Client, ref fleet.Ref) error {
	b, err := c.ImageSBOM(ctx, ref)
	if err != nil {
		return err
	}
	return writeJSON(a.out, b)
}

// showRef is an image; with a tag or digest only that version of it.
func showRef(ctx context.Context, c *api.Client, text string) (api.Image, error) {
	name, tag, digest, err := fleet.Ref(text).Split()
	if err != nil {
		return api.Image{}, &usageError{err}
	}
	i, err := c.Image(ctx, name)
	if err != nil || !strings.ContainsAny(text, ":@") {
		return i, err
	}
	if tag != "" {
		digest = i.Tags[tag]
	}
	i.Versions = slices.DeleteFunc(i.Versions, func(v api.Version) bool { return v.Digest != digest })
	if len(i.Versions) == 0 {
		return i, api.NewError(
			api.NotFound,
			"image "+text+": not found",
			"`pando image show "+name+"` lists tags and versions",
		)
	}
	maps.DeleteFunc(i.Tags, func(_ string, d fleet.Digest) bool { return d != digest })
	return i, nil
}

func (a *app) printImage(i api.Image) {
	for n, v := range i.Versions {
		if n > 0 {
			a.printf("\n")
		}
		fields(
			a.out,
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
			strings.TrimSpace(v.Kernel+"  "+sizeOf(v.KernelSize)),
			"drivers",
			sizeOf(v.DriversSize),
			"root",
			strings.TrimSpace(sizeOf(v.RootSize)+"  "+v.FileSystem),
			"stored",
			sizeOf(v.StoredSize),
			"files",
			count(int(v.Files)),
			"built",
			clock(v.Built),
			"recipe",
			v.Recipe,
			"slower",
			v.Slower,
			"logs",
			v.NoLogs,
		)
	}
}

func (a *app) imageTag() *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:   "tag IMAGE TAG",
		Short: "Point a tag at a version; nodes that follow it get it at their next boot",
		Example: `  pando image tag lab:latest stable
  pando image tag lab@sha256:0123... stable --dry-run`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeImages,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			name, _, _, err := fleet.Ref(args[0]).Split()
			if err != nil {
				return &usageError{err}
			}
			ch, err := c.SetTag(ctx, name, args[1], api.TagSet{Ref: fleet.Ref(args[0]), DryRun: dryRun})
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, ch)
			}
			was := ch.Was.Short()
			if was == "" {
				was = "new"
			}
			who := fmt.Sprintf("the next boot of %d nodes differs", len(ch.Nodes))
			if len(ch.Follow) > 0 {
				who = fmt.Sprintf("%d nodes have it as an extension: those that run follow at once", len(ch.Follow))
			}
			a.printf("%s:%s: %s -> %s; %s\n", ch.Tag.Image, ch.Tag.Tag, was, ch.Tag.Version.Short(), who)
			if dryRun {
				a.printf("nothing was done\n")
			}
			return nil
		}),
	}
	a.writeFlags(c, &dryRun)
	return c
}

func (a *app) imageDelete() *cobra.Command {
	return &cobra.Command{
		Use:   "delete IMAGE:TAG | IMAGE@VERSION",
		Short: "Remove a tag that nothing follows, or a version that nothing holds",
		Long: `Remove a tag that nothing follows; the version stays. Or take a version from an image, unless a tag, a group or a node
holds it; its files go with the next ` + "`pando store gc`" + `.`,
		Example: `  pando image delete lab:old
  pando image delete lab@sha256:0123...`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			name, tag, digest, err := fleet.Ref(args[0]).Split()
			if err == nil && !strings.ContainsAny(args[0], ":@") {
				err = errors.New("name what to delete: IMAGE:TAG or IMAGE@VERSION")
			}
			if err != nil {
				return &usageError{err}
			}
			if tag == "" {
				if err := c.DeleteVersion(ctx, name, digest); err != nil {
					return err
				}
				a.printf(
					"version %s of %s deleted; its files go with the next `pando store gc`\n",
					digest.Short(),
					name,
				)
				return nil
			}
			if err := c.DeleteTag(ctx, name, tag); err != nil {
				return err
			}
			a.printf("tag %s deleted\n", args[0])
			return nil
		}),
	}
}
