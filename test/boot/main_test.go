package boot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"pando/internal/testkit"
)

// What the tests share: where things are, and one place per machine that may boot at a time.
var (
	binDir  = abs("../../build/bin")
	workDir = abs("../../build/test")
	base    string // data directory with both images; sites are copies of it
	slots   = make(chan struct{}, max(1, runtime.NumCPU()))
)

// The images, and the groups that boot them.
const (
	bookworm = "bookworm"
	trixie   = "trixie"
)

func TestMain(m *testing.M) {
	if os.Getenv("PANDO_BOOT") == "" {
		os.Exit(m.Run()) // every test says why it is skipped
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := prepare(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(m.Run())
}

// needBoot skips a test where real machines are not wanted.
func needBoot(t *testing.T) {
	t.Helper()
	if os.Getenv("PANDO_BOOT") == "" {
		t.Skip("real machines: PANDO_BOOT is not set (make test sets it)")
	}
	t.Parallel()
}

// needFull skips a test that takes longer than `make test` has.
func needFull(t *testing.T) {
	t.Helper()
	if os.Getenv("PANDO_FULL") == "" {
		t.Skip("takes minutes: PANDO_FULL is not set (make test-full sets it)")
	}
	needBoot(t)
}

// prepare builds the images, unless the same code has done so before.
func prepare(ctx context.Context) error {
	sum, err := builderSum()
	if err != nil {
		return err
	}
	base = filepath.Join(workDir, "base-"+sum)
	if err := errors.Join(testkit.Sweep("boot"), testkit.Sweep("bootdhcp"), testkit.Sweep("bootbase"), os.RemoveAll(runDir()), os.MkdirAll(runDir(), 0o755)); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(base, "whole")); err == nil {
		return nil
	}
	stale, err := filepath.Glob(filepath.Join(workDir, "base-*"))
	if err != nil {
		return err
	}
	for _, dir := range stale {
		if err := os.RemoveAll(dir); dir != base && err != nil {
			return err
		}
	}
	if err := buildBase(ctx); err != nil {
		return fmt.Errorf("images for the boot tests: %w", err)
	}
	return os.WriteFile(filepath.Join(base, "whole"), nil, 0o644)
}

func runDir() string { return filepath.Join(workDir, "run") }

// builderSum is a digest of all code that decides what an image is.
func builderSum() (string, error) {
	h := sha256.New()
	for _, dir := range []string{"build", "chunk", "image", "store", "registry", "identity"} {
		err := filepath.WalkDir(filepath.Join("../../internal", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && d.Name() != "testdata" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			if d.IsDir() {
				return fs.SkipDir
			}
			b, err := os.ReadFile(path)
			fmt.Fprintf(h, "%s %d\n%s", path, len(b), b)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// buildBase runs a server, for the tags, and builds both images into its store.
func buildBase(ctx context.Context) error {
	network, err := testkit.NewNet("bootbase", netip.MustParsePrefix(subnet))
	if err != nil {
		return err
	}
	defer network.Close()
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	site, err := testkit.StartSite(ctx, testkit.SiteConfig{Net: network, Bin: binDir, Data: base,
		Log: filepath.Join(runDir(), "base.log"), DHCP: "off"})
	if err != nil {
		return err
	}
	defer site.Close()
	for _, suite := range []string{bookworm, trixie} {
		c := exec.CommandContext(ctx, filepath.Join(binDir, "pando"), "--data", base, "image", "build", suite, "--recipe", "debian:"+suite)
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", suite, err, out)
		}
	}
	return nil
}

func abs(path string) string {
	a, err := filepath.Abs(path)
	if err != nil {
		panic(err) // the working directory is gone
	}
	return a
}
