package image

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"pando/internal/build"
	"pando/internal/build/recipe"
	"pando/internal/build/source"
	"pando/internal/exitcode"
	"pando/internal/output"
)

// sourceFlags say what an image is made from. Exactly one of the fields in the first line is given.
type sourceFlags struct {
	recipe, fromDir, fromDisk, fromOCI, fromTar string
	fromHost                                    bool

	choice choiceFlags

	architecture string
	kernelFrom   string
	kernel       string
	maxSize      sizeValue
}

func (f *sourceFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.recipe, "recipe", "", "recipe: a file, or a built-in one")
	fl.StringVar(&f.fromDir, "from-dir", "", "build from the tree in this directory")
	fl.StringVar(&f.fromDisk, "from-disk", "", "build from the disk of a virtual machine: raw or qcow2")
	fl.BoolVar(&f.fromHost, "from-host", false, "build from the root of this machine")
	f.choice.add(fl)
	fl.StringVar(
		&f.fromOCI,
		"from-oci",
		"",
		"build from a container image: a reference, a layout directory, or an archive of docker save",
	)
	fl.StringVar(
		&f.fromTar,
		"from-tar",
		"",
		"build from a tarball of a root file system: plain, or packed with gzip, zstd, bzip2 or xz",
	)
	fl.StringVar(
		&f.architecture,
		"architecture",
		"",
		"amd64 or arm64, of a recipe or a container image (default: the recipe's, or this machine's)",
	)
	fl.StringVar(
		&f.kernelFrom,
		"kernel-from",
		"",
		"image, directory, tarball or container image whose kernel and modules the tree gets",
	)
	addKernel(fl, &f.kernel)
	fl.Var(
		&f.maxSize,
		"max-size",
		"bytes that the files of an unpacked tree may have, such as 20G (default: what is free on the disk)",
	)
}

// into sets the source in the options of a build.
func (f *sourceFlags) into(opt *build.Options) error {
	limits := source.Limits{MaxSize: int64(f.maxSize)}
	host := ""
	if f.fromHost {
		host = "/"
	}
	ways := []struct {
		flag, value string
		set         func() error
	}{
		{
			"--recipe",
			f.recipe,
			func() (err error) { opt.Recipe, err = recipe.LoadFor(f.recipe, f.architecture); return err },
		},
		{"--from-dir", f.fromDir, func() error { opt.FromDir = f.fromDir; return nil }},
		{
			"--from-disk",
			f.fromDisk,
			func() error { opt.Source = source.Disk{File: f.fromDisk, Choice: f.choice.Choice}; return nil },
		},
		{"--from-host", host, func() error { opt.Source = source.Machine{Choice: f.choice.Choice}; return nil }},
		{
			"--from-oci",
			f.fromOCI,
			func() (err error) { opt.Source, err = source.ParseOCI(f.fromOCI, f.architecture, limits); return err },
		},
		{
			"--from-tar",
			f.fromTar,
			func() error { opt.Source = source.Tar{File: f.fromTar, Limits: limits}; return nil },
		},
	}
	var names []string
	var set func() error
	given := 0
	for _, w := range ways {
		names = append(names, w.flag)
		if w.value != "" {
			given++
			set = w.set
		}
	}
	if given != 1 {
		return exitcode.WithHint(
			exitcode.Usagef("give one of %s", strings.Join(names, ", ")),
			"the built-in recipes are "+strings.Join(recipe.Builtins(), ", "),
		)
	}
	if f.architecture != "" && f.recipe == "" && f.fromOCI == "" {
		return exitcode.WithHint(
			exitcode.Usagef("--architecture chooses one of several, and what the image is made from has one"),
			"leave it out",
		)
	}
	err := set()
	if err == nil {
		opt.Kernel = f.kernel
		opt.KernelFrom, err = kernelSource(f.kernelFrom, f.fromDir, f.architecture, int64(f.maxSize))
	}
	if err != nil {
		return exitcode.AsUsage(err)
	}
	return nil
}

// kernelSource interprets --kernel-from: a file if it exists; a container image if it has that prefix; otherwise an
// image of this site, whose version the caller looks up.
func kernelSource(kernelFrom, fromDir, architecture string, maxSize int64) (*build.KernelFrom, error) {
	if kernelFrom == "" {
		return nil, nil //nolint:nilnil // the flag was not given
	}
	if fromDir != "" {
		return nil, exitcode.WithHint(
			exitcode.Usagef("--kernel-from changes the tree, and --from-dir only reads it"),
			"build from a tarball of the directory, or put a kernel into it",
		)
	}
	k := &build.KernelFrom{Name: kernelFrom}
	limits := source.Limits{MaxSize: maxSize}
	info, err := os.Stat(kernelFrom)
	switch {
	case err == nil && info.IsDir() && exists(filepath.Join(kernelFrom, "index.json")), containerPrefix(kernelFrom):
		if k.Source, err = source.ParseOCI(kernelFrom, architecture, limits); err != nil {
			return nil, exitcode.AsUsage(err)
		}
	case err == nil && info.IsDir():
		k.Tree, err = filepath.Abs(kernelFrom)
	case err == nil:
		k.Source = source.Tar{File: kernelFrom, Limits: limits}
	default:
		return k, nil
	}
	return k, err
}

// addKernel adds the flag that chooses one kernel of several.
func addKernel(fl *pflag.FlagSet, release *string) {
	fl.StringVar(
		release,
		"kernel",
		"",
		"release of the kernel that nodes boot, where there are several (default: a plain one before debug, cloud and "+
			"the like, then the newest)",
	)
}

func addDrivers(fl *pflag.FlagSet, modules *[]string) {
	fl.StringArrayVar(modules, "driver", nil, "module of a network adapter that nodes boot by and that is not "+
		"among the usual ones, such as cxgb4")
}

func containerPrefix(ref string) bool {
	prefixes := []string{"oci:", "oci-archive:", "docker-archive:", "docker://", "http://"}
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(ref, p) })
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// choiceFlags change which files of a machine are copied.
type choiceFlags struct{ source.Choice }

func (f *choiceFlags) add(fl *pflag.FlagSet) {
	fl.StringArrayVar(&f.Exclude, "exclude", nil, "path of a machine or its disk that is left out, too")
	fl.StringArrayVar(
		&f.With,
		"with",
		nil,
		"path of a machine or its disk that is taken, with what is below, though it would be left out",
	)
}

// sizeValue is a flag for a number of bytes: 500M, 20G, 1.5T, in powers of 1000.
type sizeValue int64

// Set parses a size.
func (s *sizeValue) Set(text string) error {
	number := strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(text)), "B")
	factor := 1.0
	if i := strings.IndexAny(number, "KMGT"); i >= 0 && i == len(number)-1 {
		factor = math.Pow(1000, float64(1+strings.IndexByte("KMGT", number[i])))
		number = number[:i]
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(n > 0) || n*factor >= math.MaxInt64 {
		return fmt.Errorf("%q is not a size such as 500M or 20G", text)
	}
	*s = sizeValue(n * factor)
	return nil
}

// String returns the size for help texts, "" for 0.
func (s *sizeValue) String() string {
	if *s == 0 {
		return ""
	}
	return output.Size(int64(*s))
}

// Type returns the name of the value in help texts.
func (s *sizeValue) Type() string { return "size" }
