package boot

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pando/internal/api"
	"pando/internal/build/initramfs"
	"pando/internal/image"
	"pando/internal/store"
	"pando/internal/testkit"
)

// Limits of K in bytes, with the drivers of every usual NIC, and of one known NIC. Mellanox's newest NICs and USB
// adapters are up to 320 KB above the second limit, and are only logged: docs/formats/initramfs.md.
var (
	allBounds   = map[string]int64{bookworm: 18.5e6, trixie: 22e6}
	knownBounds = map[string]int64{bookworm: 12.5e6, trixie: 16.32e6}
	// In addition, for groups whose nodes have a cache on a disk.
	mostDiskDrivers = 1_750_000
)

// TestRealK bounds the size of kernel, drivers and agent, which every boot loads before it has a root.
func TestRealK(t *testing.T) {
	needBoot(t)
	s := newSite(t, "off")
	binary, err := os.ReadFile(filepath.Join(binDir, "pando-init"))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := initramfs.AgentCPIO(t.Context(), binary)
	if err != nil {
		t.Fatal(err)
	}
	bounds := maps.Clone(allBounds)
	images, err := s.API.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		for _, v := range i.Versions {
			k := v.KernelSize + v.DriversSize + int64(len(agent))
			t.Logf(
				"K of %s: %d bytes: kernel %s %d, drivers %d, agent %d",
				i.Name,
				k,
				v.Kernel,
				v.KernelSize,
				v.DriversSize,
				len(agent),
			)
			if k > bounds[i.Name] {
				t.Errorf("K of %s has %d bytes, the bound is %d", i.Name, k, bounds[i.Name])
			}
			s.knownK(i.Name, v, int64(len(agent)))
		}
		delete(bounds, i.Name)
	}
	if len(bounds) != 0 {
		t.Errorf("no image for %v", bounds)
	}
}

// knownK bounds K of a version with the drivers of each single NIC.
func (s *site) knownK(name string, v api.Version, agent int64) {
	s.t.Helper()
	st, err := store.OpenDir(filepath.Join(s.Config.Data, "store"))
	if err != nil {
		s.t.Fatal(err)
	}
	kept, err := st.GetVersion(v.Digest)
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := image.Decode(kept.Manifest)
	if err != nil {
		s.t.Fatal(err)
	}
	bounded := 0
	for _, d := range m.Drivers {
		of := d.Name
		if d.InsteadOf == "" {
			of = "virtio"
		}
		if len(d.For) == 0 {
			continue
		}
		drivers, known := m.DriversFor(image.NIC{Modules: d.For[:1]})
		k := m.Kernel.Size + image.DriversSize(drivers) + agent
		s.t.Logf("K of %s with %s: %d bytes, drivers %d", name, of, k, image.DriversSize(drivers))
		usual := of == "virtio" || slices.Contains(testkit.UsualNICs(), of)
		if !known || usual && k > knownBounds[name] {
			s.t.Errorf("K of %s with %s has %d bytes, the bound is %d", name, of, k, knownBounds[name])
		}
		if usual {
			bounded++
		}
	}
	disks, err := initramfs.DiskDrivers(s.t.Context(), st, m)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("drivers of disks of %s, for groups with a cache on a disk: %d bytes", name, len(disks.Data))
	if len(disks.Data) > mostDiskDrivers {
		s.t.Errorf("drivers of disks of %s have %d bytes, the bound is %d", name, len(disks.Data), mostDiskDrivers)
	}
	if usual := len(testkit.UsualNICs()) + 1; bounded != usual {
		s.t.Errorf("%s has drivers of %d of the %d usual NICs", name, bounded, usual)
	}
}
