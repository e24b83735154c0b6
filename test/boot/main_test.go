package boot

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pando/internal/testkit"
)

// Shared by all tests: directories, and a semaphore with one slot per machine that may boot at a time.
var (
	binDir  = abs("../../build/bin")
	workDir = abs("../../build/test")
	base    string // data directory with both images, which sites copy
	slots   = make(chan struct{}, max(1, runtime.NumCPU()))
)

// The images, and the groups that boot them.
const (
	bookworm = "bookworm"
	trixie   = "trixie"
)

func TestMain(m *testing.M) {
	if os.Getenv("PANDO_BOOT") == "" {
		os.Exit(m.Run()) // every skipped test gives its reason
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	lock, err := alone()
	if err == nil {
		err = prepare(ctx)
	}
	stop()
	if err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	lock.Close()
	os.Exit(code)
}

// alone waits until no other run uses this checkout's directories, because each run removes the remains of earlier
// ones.
func alone() (*os.File, error) {
	if err := os.MkdirAll(workDir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(workDir, "lock"), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		log.Printf("another run of these tests has %s: this one waits for it", f.Name())
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	return f, err
}

// needBoot skips a test unless PANDO_BOOT is set.
func needBoot(t *testing.T) {
	t.Helper()
	if os.Getenv("PANDO_BOOT") == "" {
		t.Skip("real machines: PANDO_BOOT is not set (make test sets it)")
	}
	t.Parallel()
}

// full reports whether long tests are enabled, as by `make test-full`.
func full() bool { return os.Getenv("PANDO_FULL") != "" }

// needFull skips a test that is too long for `make test`.
func needFull(t *testing.T) {
	t.Helper()
	if !full() {
		t.Skip("takes minutes: PANDO_FULL is not set (make test-full sets it)")
	}
	needBoot(t)
}

// prepare removes the remains of earlier runs, and builds the shared images.
func prepare(ctx context.Context) error {
	if err := errors.Join(testkit.Sweep("boot"), testkit.Sweep("bootdhcp"), testkit.Sweep("bootbase"),
		os.RemoveAll(runDir()), os.MkdirAll(runDir(), 0o755)); err != nil {
		return err
	}
	var err error
	base, err = withImages(ctx, "base", "", map[string]string{bookworm: "debian:bookworm", trixie: "debian:trixie"})
	return err
}

// withImages makes a data directory with images by their recipes, which may be followed by flags, unless an earlier run
// with the same code has made it. It starts as a copy of from.
func withImages(ctx context.Context, kind, from string, recipes map[string]string) (string, error) {
	sum, err := imageKey(os.DirFS("../../internal"))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(workDir, kind+"-"+sum)
	whole := filepath.Join(dir, "whole")
	if _, err := os.Stat(whole); err == nil {
		return dir, nil
	}
	stale, err := filepath.Glob(filepath.Join(workDir, kind+"-*"))
	if err != nil {
		return "", err
	}
	for _, old := range stale {
		if err := os.RemoveAll(old); err != nil {
			return "", err
		}
	}
	if from != "" {
		err = copyData(from, dir)
	}
	if err == nil {
		err = buildImages(ctx, dir, recipes)
	}
	if err != nil {
		return "", fmt.Errorf("images for the boot tests: %w", err)
	}
	return dir, os.WriteFile(whole, nil, 0o644)
}

func runDir() string { return filepath.Join(workDir, "run") }

// buildImages starts a server, which is needed for tags, and builds images into its store.
func buildImages(ctx context.Context, data string, recipes map[string]string) error {
	network, err := testkit.NewNet("bootbase", netip.MustParsePrefix(subnet))
	if err != nil {
		return err
	}
	defer network.Close()
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	site, err := testkit.StartSite(ctx, testkit.SiteConfig{Net: network, Bin: binDir, Data: data,
		Log: filepath.Join(runDir(), filepath.Base(data)+".log"), DHCP: "off"})
	if err != nil {
		return err
	}
	defer site.Close()
	for _, name := range slices.Sorted(maps.Keys(recipes)) {
		c := exec.CommandContext(ctx, filepath.Join(binDir, "pando"),
			append([]string{"--data", data, "image", "build", name, "--recipe"}, strings.Fields(recipes[name])...)...)
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return os.RemoveAll(filepath.Join(data, "work")) // layers of the recipes, which no test needs
}

func abs(path string) string {
	a, err := filepath.Abs(path)
	if err != nil {
		panic(err) // the working directory does not exist
	}
	return a
}
