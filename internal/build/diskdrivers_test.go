package build

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/build/initramfs"
	"pando/internal/image"
	"pando/internal/testkit"

	"github.com/klauspost/compress/zstd"
)

// TestDiskDrivers: disk drivers are read from the version's own root, without the modules of base, and are the same
// each time.
func TestDiskDrivers(t *testing.T) {
	testkit.NeedBuilder(t)
	root := testkit.FakeTree(t)
	dir := filepath.Join(root, "lib/modules", testkit.TestRelease)
	testkit.Depmod(t, root)
	more := map[string]string{
		"kernel/ahci.ko":   "kernel/libata.ko kernel/nbd.ko",
		"kernel/libata.ko": "",
		"kernel/sd_mod.ko": "",
	}
	var dep strings.Builder
	for _, name := range []string{"kernel/ahci.ko", "kernel/libata.ko", "kernel/sd_mod.ko"} {
		if err := os.WriteFile(filepath.Join(dir, name), testkit.FakeModule(t), 0o644); err != nil {
			t.Fatal(err)
		}
		dep.WriteString(name + ": " + more[name] + "\n")
	}
	known, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "modules.dep"), append(known, dep.String()...), 0o644); err != nil {
		t.Fatal(err)
	}
	kernel := filepath.Join(root, "boot/vmlinuz-"+testkit.TestRelease)
	if err := errors.Join(os.Mkdir(filepath.Dir(kernel), 0o755),
		os.WriteFile(kernel, []byte(testkit.FakeKernel(testkit.TestRelease)), 0o644)); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	opt := testOptions(t, data, root)
	r := mustBuild(t, opt)
	m := r.Manifest
	m.Kernel.Release = testkit.TestRelease
	var before []byte
	for range 2 {
		d, err := initramfs.DiskDrivers(t.Context(), opt.Store, m)
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"ahci", "libata", "sd_mod", "xhci_pci"}; !slices.Equal(d.Modules, want) {
			t.Errorf("modules %v, want %v", d.Modules, want)
		}
		i := slices.IndexFunc(driverSet(t, d).Modules, func(m image.Module) bool { return m.Name == "ahci" })
		if x := driverSet(t, d).Modules[i]; !slices.Equal(x.Needs, []string{"libata", "nbd"}) ||
			!strings.HasSuffix(x.Path, "/kernel/ahci.ko") {
			t.Errorf("%+v", x)
		}
		if before != nil && !bytes.Equal(before, d.Data) {
			t.Error("the same root gives other drivers")
		}
		before = d.Data
	}
	m.Kernel.Release = "6.6.6"
	if _, err := initramfs.DiskDrivers(t.Context(), opt.Store, m); err == nil ||
		!strings.Contains(err.Error(), "no modules") {
		t.Errorf("a kernel without modules: %v", err)
	}
}

func unpack(t *testing.T, packed []byte) string {
	t.Helper()
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	raw, err := d.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// driverSet reads the DriverSet in a driver cpio.
func driverSet(t *testing.T, d initramfs.DriverCPIO) image.DriverSet {
	t.Helper()
	raw := unpack(t, d.Data)
	_, rest, ok := strings.Cut(raw, "pando/drivers/"+d.Name+".json\x00")
	if !ok {
		t.Fatalf("%s has no description", d.Name)
	}
	var set image.DriverSet
	if err := json.NewDecoder(strings.NewReader(rest[strings.IndexByte(rest, '{'):])).Decode(&set); err != nil {
		t.Fatal(err)
	}
	return set
}
