package image

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/build"
	"pando/internal/build/recipe"
	"pando/internal/buildrun"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/image"
)

// buildFlags are the flags of `image build`.
type buildFlags struct {
	sourceFlags
	firmware, format string
	kernelArgs, tags []string
	drivers          []string
	fresh            bool
}

func imageBuild(env *cmdenv.Env) *cobra.Command {
	var f buildFlags
	c := &cobra.Command{
		Use: "build NAME (--recipe RECIPE | --from-dir DIR | --from-disk FILE | --from-host | --from-oci REF | " +
			"--from-tar FILE)",
		Short: "Build, sign and store a version; NAME:latest moves to it",
		Long: `Build, sign and store a version of an image, on the machine of the server. The tag "latest" moves to it, and so do
those given with --tag. Interrupted, the same command continues where it was. A recipe is a file, or one of
` + strings.Join(
			recipe.Builtins(),
			", ",
		) + `. docs/images.md says what else an image is made from.`,
		Example: `  pando image build debian --recipe debian:bookworm
  pando image build debian-arm64 --recipe debian:bookworm --architecture arm64
  pando image build lab --recipe lab.yaml --tag canary
  pando image build rescue --from-dir /srv/rescue
  pando image build kiosk --from-oci registry.example/kiosk:2
  pando image build pilot --from-tar pilot.tar.zst
  pando image build lab --from-disk lab.qcow2
  pando image build lab --from-host --exclude /srv`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return buildImage(env, cmd.Context(), args[0], f)
		},
	}
	fl := c.Flags()
	f.sourceFlags.add(fl)
	fl.StringVar(&f.firmware, "firmware", "", "directory with firmware files for drivers")
	fl.StringVar(&f.format, "format", "auto", formatUsage())
	fl.StringArrayVar(&f.kernelArgs, "kernel-arg", nil, "kernel argument that the image wants")
	addDrivers(fl, &f.drivers)
	fl.StringArrayVar(&f.tags, "tag", nil, "tag that moves to the new version, besides latest")
	fl.BoolVar(
		&f.fresh,
		"fresh",
		false,
		"install or unpack again: take nothing of earlier builds, neither layers of the recipe nor a tree that "+
			"was not finished",
	)
	return env.ReadFlags(c)
}

func buildImage(env *cmdenv.Env, ctx context.Context, name string, f buildFlags) error {
	opt, err := f.options(env.Data, env.Release)
	if err != nil {
		return err
	}
	return buildFrom(env, ctx, name, f.tags, opt)
}

// buildFrom builds a version, registers it and moves the tags.
func buildFrom(env *cmdenv.Env, ctx context.Context, name string, tags []string, opt build.Options) error {
	if err := privateMounts(env, opt); err != nil {
		return err
	}
	b, err := openBuilder(env, ctx, name, tags)
	if err != nil {
		return err
	}
	defer b.close()
	if k := opt.KernelFrom; k != nil && k.Source == nil && k.Tree == "" {
		if k.Version, err = cmdenv.FindVersion(ctx, b.client, k.Name); err != nil {
			return err
		}
	}
	opt.Store, opt.Keys, opt.Work = b.options.Store, b.options.Keys, b.options.Work
	if opt.Recipe != nil && opt.Recipe.Base != "" {
		version, err := cmdenv.FindVersion(ctx, b.client, string(opt.Recipe.Base))
		if err != nil {
			return fmt.Errorf(
				"recipe %s: from: %w (the built-in recipes are %s)",
				opt.Recipe.Name,
				err,
				strings.Join(recipe.Builtins(), ", "),
			)
		}
		opt.Recipe = opt.Recipe.WithBase(version)
	}
	if opt.Recipe != nil {
		if err := b.sameArchitecture(ctx, opt.Recipe.Architecture); err != nil {
			return err
		}
	}
	b.options = opt
	result, err := b.run(buildrun.Steps(), func(o build.Options) (build.Result, error) { return build.Image(ctx, o) })
	if err != nil {
		return buildrun.WithHint(err)
	}
	return b.publish(ctx, result)
}

func formatUsage() string {
	return "root file system: " + strings.Join(
		image.FileSystems(),
		", ",
	) + "; auto: the first of these that the image's kernel can read"
}

// formatOf checks --format. "" means a format that the kernel of the image can read.
func formatOf(name string) (string, error) {
	if name != "auto" && !slices.Contains(image.FileSystems(), name) {
		return "", exitcode.WithHint(
			exitcode.Usagef("--format %s: no such root file system", name),
			"use auto or one of "+strings.Join(image.FileSystems(), ", "),
		)
	}
	return strings.TrimPrefix(name, "auto"), nil
}

// options checks the flags and reads the recipe, if one is named.
func (f buildFlags) options(data, release string) (build.Options, error) {
	opt := build.Options{Firmware: f.firmware, CommandLine: f.kernelArgs, Drivers: f.drivers, FreshTree: f.fresh,
		Builder: release}
	if err := fleet.ValidKernelArgs(f.kernelArgs); err != nil {
		return opt, exitcode.AsUsage(err)
	}
	var err error
	if opt.Format, err = formatOf(f.format); err != nil {
		return opt, err
	}
	if abs, err := filepath.Abs(data); err == nil && f.fromHost {
		f.choice.Exclude = append(f.choice.Exclude, abs) // the data directory, which has images and keys
	}
	return opt, f.sourceFlags.into(&opt)
}
