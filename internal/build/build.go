package build

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"aead.dev/minisign"

	"pando/internal/build/base"
	"pando/internal/build/initramfs"
	"pando/internal/build/recipe"
	"pando/internal/build/rootfs"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/steps"
	"pando/internal/store"
	"pando/internal/workdir"
)

// Options says what to build, from what and where to.
type Options struct {
	// The source of the tree: a recipe, an existing directory, or a source that fills a directory. Exactly one is set.
	Recipe  *recipe.Recipe
	FromDir string
	Source  Source

	// KernelFrom gives the tree its kernel. It is not allowed with FromDir, which is never written, or with a base.
	// nil: the tree has a kernel.
	KernelFrom *KernelFrom

	// Kernel selects a kernel release if the tree, or KernelFrom, has several. "": the recipe's choice, else the
	// preferred one.
	Kernel string

	Store *store.Dir            // gets the objects and the manifest
	Work  string                // directory for unfinished work, on a disk with room for the tree and the raw image
	Keys  []minisign.PrivateKey // sign the manifest; none: it is signed later, on the machine that has the key
	// Format is the kind of root file system (image.FileSystems). "": the first that the kernel of the tree can read.
	Format   string
	Firmware string // directory looked at before the tree's /lib/firmware; "" none

	CommandLine []string // kernel arguments, after the recipe's
	Drivers     []string // modules of network adapters that nodes get besides the usual ones and the recipe's
	ChunkSize   int      // raw bytes of the largest chunk; 0: chunk.DefaultChunkSize
	Workers     int      // chunks packed at once; 0: one for each processor
	FreshTree   bool     // install or fill again, also if an interrupted build left a whole tree
	Builder     string   // version of Pando, for the provenance

	// Parent and Command are set if the directory is a changed version: that version, and the command that changed
	// it. They go into the provenance.
	Parent  fleet.Digest
	Command []string

	extends *extends // set if the version is an extension, which boots no node

	Log      *slog.Logger         // nil: nothing is logged
	Progress func(steps.Progress) // nil: no progress is reported; called from one goroutine at a time
	Now      func() time.Time     // nil: time.Now; only for the provenance and for the age of a tree

	// needs checks the tree for what drivers will pack. nil: nothing is checked.
	needs   func(context.Context, initramfs.DriverOptions) error
	drivers func(context.Context, initramfs.DriverOptions) ([]initramfs.DriverCPIO, error) // nil: initramfs.Drivers
	// atOnce installs recipes without layers.
	atOnce bool
	// anyInit accepts a tree without an init program. Tests set it, because their trees boot nowhere.
	anyInit bool
}

// The steps of a build, in order.
const (
	StepTree     = "tree"     // packages are installed, a source fills a directory
	StepScan     = "scan"     // the tree is looked through
	StepErofs    = "erofs"    // the raw image is written
	StepKernel   = "kernel"   // kernel and drivers are stored
	StepObjects  = "objects"  // chunks are packed and stored
	StepManifest = "manifest" // the version is signed and published
	StepPack     = "pack"     // of extensions: the boot pack is made, from which nodes share the extension
)

// Steps lists the steps of an image in order.
func Steps() []string {
	return []string{StepTree, StepScan, StepErofs, StepKernel, StepObjects, StepManifest}
}

// Result describes a version in the store and what its build stored.
type Result struct {
	Version    fleet.Digest
	Existed    bool // the store had this version already
	Manifest   image.Manifest
	Provenance image.Provenance
	Chunks     int   // extents of the root file system that have an object
	Objects    int64 // distinct objects of the version, all kinds
	NewObjects int64 // objects that the store did not have before
	NewBytes   int64 // bytes of the new objects, as stored
	Elapsed    map[string]time.Duration
}

// Image builds a version and puts it into the store. A build may be interrupted at any moment, also by a full disk or
// a power cut: the store stays consistent and the same call continues.
func Image(ctx context.Context, opt Options) (Result, error) {
	b, err := newBuilder(opt)
	if err != nil {
		return Result{}, fmt.Errorf("build image: %w", err)
	}
	if err := b.run(ctx); err != nil {
		return b.result, offline(fmt.Errorf("build image: %w", err), opt.Recipe != nil)
	}
	return b.result, nil
}

// builder is one run of Image.
type builder struct {
	Options
	work   *workdir.Dir
	enc    *chunk.Encoder
	result Result

	root     string        // the tree
	base     *base.Copy    // the copy of the version that a recipe begins with; nil without one
	maker    *recipe.Maker // makes the tree of a recipe; nil without a recipe
	origin   *image.Origin // where the source says that the tree comes from; nil without a source
	kernel   string        // release of the kernel that KernelFrom put into the tree; "": the tree has its own kernel
	scan     rootfs.Scan
	format   string        // kind of root file system
	mkfs     string        // program that wrote the raw image, with its version
	early    *earlyDrivers // drivers that a background goroutine packs
	manifest image.Manifest
	counter  *rootfs.Counter
}

func newBuilder(opt Options) (*builder, error) {
	if ways := opt.ways(); ways != 1 {
		return nil, fmt.Errorf("give one of a recipe, a directory and a source, not %d", ways)
	}
	if opt.KernelFrom != nil && opt.FromDir != "" {
		return nil, errors.New(
			"a directory is read where it is and gets no kernel: put one into it, or build from a tarball of it",
		)
	}
	if opt.KernelFrom != nil && opt.Recipe != nil && opt.Recipe.Base != "" {
		return nil, errors.New(
			"a recipe that begins with an image has the kernel of that, or installs one: it gets none from elsewhere",
		)
	}
	if opt.Recipe != nil && opt.Recipe.Base != "" {
		if _, err := opt.Recipe.BaseVersion(); err != nil {
			return nil, err
		}
	}
	if opt.Store == nil || opt.Work == "" {
		return nil, errors.New("no store or no work directory")
	}
	if opt.ChunkSize == 0 {
		opt.ChunkSize = chunk.DefaultChunkSize
	}
	if opt.Workers == 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Progress == nil {
		opt.Progress = func(steps.Progress) {}
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.drivers == nil {
		opt.drivers, opt.needs = initramfs.Drivers, initramfs.CheckNeeds
	}
	if opt.Kernel == "" && opt.Recipe != nil {
		opt.Kernel = opt.Recipe.KernelRelease
	}
	enc, err := chunk.NewEncoder(opt.Workers)
	if err != nil {
		return nil, err
	}
	b := &builder{Options: opt, enc: enc, counter: rootfs.NewCounter()}
	b.result.Elapsed = map[string]time.Duration{}
	b.manifest.Format = image.Format
	return b, nil
}

// run carries out the steps in order.
func (b *builder) run(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("it must run as root: the tree has files of many owners, and device nodes")
	}
	if b.work, err = workdir.Open(ctx, b.Work, b.workName(), Revision, b.at(StepTree)); err != nil {
		return err
	}
	defer b.work.Close()
	defer func() { err = errors.Join(err, b.closeBase()) }()
	defer b.endDrivers()
	unlock := func() {}
	defer func() { unlock() }()
	pipeline := []struct {
		name string
		do   func(context.Context) error
	}{
		{StepTree, b.makeTree},
		{StepScan, b.scanTree},
		{StepErofs, func(ctx context.Context) error {
			if b.extends == nil {
				b.beginDrivers(ctx)
			}
			return b.makeRaw(ctx)
		}},
		{StepKernel, func(ctx context.Context) (err error) {
			if unlock, err = b.lockStore(ctx); err != nil {
				return err
			}
			if b.extends != nil {
				return nil
			}
			return b.addKernel(ctx)
		}},
		{StepObjects, b.addRoot},
		{StepManifest, b.publish},
	}
	for _, step := range pipeline {
		begin := time.Now()
		b.Progress(steps.Progress{Step: step.name})
		if err := step.do(ctx); err != nil {
			b.work.Note(step.name, err)
			return fmt.Errorf("%s: %w", step.name, err)
		}
		b.result.Elapsed[step.name] = time.Since(begin)
		b.Log.Info("build step done", "step", step.name, "seconds", time.Since(begin).Seconds())
	}
	if err := b.closeBase(); err != nil {
		return err
	}
	return b.work.Remove()
}

// makeRaw is the step that writes the raw image.
func (b *builder) makeRaw(ctx context.Context) error {
	w := &rootfs.Writer{
		Tree:     b.root,
		Format:   b.format,
		Progress: b.at(StepErofs),
		Now:      b.Now,
		Work:     b.work,
		Scan:     b.scan,
	}
	err := w.Write(ctx)
	b.mkfs = w.By
	b.result.Provenance.Warnings = append(b.result.Provenance.Warnings, w.Lost...)
	return err
}

// addRoot is the step that stores the raw image as objects.
func (b *builder) addRoot(ctx context.Context) error {
	s := &rootfs.Storer{
		Store: b.Store, Format: b.format, ChunkSize: b.ChunkSize, Workers: b.Workers, Counter: b.counter,
		Progress: b.at(StepObjects), Work: b.work, Enc: b.enc,
	}
	err := s.Run(ctx)
	b.manifest.Root, b.manifest.Sizes, b.result.Chunks = s.Root, s.Sizes, s.Chunks
	return err
}

// at returns the progress function for a step.
func (b *builder) at(step string) func(steps.Progress) { return within(step, b.Progress) }

// within returns a progress function that adds the name of a step.
func within(step string, tell func(steps.Progress)) func(steps.Progress) {
	return func(p steps.Progress) {
		p.Step = step
		tell(p)
	}
}

// lockStore locks the store. If another process writes to it, lockStore reports that and waits.
func (b *builder) lockStore(ctx context.Context) (func(), error) {
	unlock, err := b.Store.TryLock("image build")
	var locked *store.LockedError
	if errors.As(err, &locked) {
		b.Progress(steps.Progress{Step: StepKernel, Note: "waiting for the store: " + locked.Holder})
		return b.Store.Lock(ctx, "image build")
	}
	return unlock, err
}
