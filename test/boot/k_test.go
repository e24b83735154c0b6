package boot

import (
	"os"
	"path/filepath"
	"testing"

	"pando/internal/build"
)

// TestRealK bounds what every boot loads before it has a root: kernel, drivers of every usual NIC, agent. The bounds are
// decimal megabytes; Debian 13's kernel alone is 4 MB larger than Debian 12's.
func TestRealK(t *testing.T) {
	needBoot(t)
	s := newSite(t, "off")
	binary, err := os.ReadFile(filepath.Join(binDir, "pando-init"))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := build.AgentCPIO(binary)
	if err != nil {
		t.Fatal(err)
	}
	bounds := map[string]int64{bookworm: 18e6, trixie: 22e6}
	images, err := s.API.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		for _, v := range i.Versions {
			k := v.KernelSize + v.DriversSize + int64(len(agent))
			t.Logf("K of %s: %d bytes: kernel %s %d, drivers %d, agent %d", i.Name, k, v.Kernel, v.KernelSize, v.DriversSize, len(agent))
			if k > bounds[i.Name] {
				t.Errorf("K of %s has %d bytes, the bound is %d", i.Name, k, bounds[i.Name])
			}
		}
		delete(bounds, i.Name)
	}
	if len(bounds) != 0 {
		t.Errorf("no image for %v", bounds)
	}
}
