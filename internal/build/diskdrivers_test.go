package build

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/image"
)

// The drivers of disks come out of a version's own root, without those of base, and are the same each time.
func TestDiskDrivers(t *testing.T) {
	needBuilder(t)
	root := fakeTree(t)
	dir := filepath.Join(root, "lib/modules", testRelease)
	depmod(t, root)
	more := map[string]string{
		"kernel/ahci.ko":   "kernel/libata.ko kernel/nbd.ko",
		"kernel/libata.ko": "",
		"kernel/sd_mod.ko": "",
	}
	var dep strings.Builder
	for _, name := range []string{"kernel/ahci.ko", "kernel/libata.ko", "kernel/sd_mod.ko"} {
		if err := os.WriteFile(filepath.Join(dir, name), fakeModule(t), 0o644); err != nil {
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
	kernel := filepath.Join(root, "boot/vmlinuz-"+testRelease)
	if err := errors.Join(os.Mkdir(filepath.Dir(kernel), 0o755), os.WriteFile(kernel, []byte(fakeKernel(testRelease)), 0o644)); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	opt := testOptions(t, data, root)
	r := mustBuild(t, opt)
	m := r.Manifest
	m.Kernel.Release = testRelease
	var before []byte
	for range 2 {
		d, err := DiskDrivers(t.Context(), opt.Store, m)
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
	if _, err := DiskDrivers(t.Context(), opt.Store, m); err == nil || !strings.Contains(err.Error(), "no modules") {
		t.Errorf("a kernel without modules: %v", err)
	}
}
