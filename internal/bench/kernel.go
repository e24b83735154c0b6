package bench

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"pando/internal/build/initramfs"
	"pando/internal/image"
	"pando/internal/testkit"
)

// KernelSize is the size of a version's kernel+initrd (K), in bytes, by part. It leaves out the few hundred bytes that
// are made for each boot.
type KernelSize struct {
	Recipe  string `json:"recipe,omitempty"` // recipe of the image
	Version string `json:"version"`
	Release string `json:"release"` // of the kernel
	Kernel  int64  `json:"kernel"`
	Agent   int64  `json:"agent"`
	Every   int64  `json:"every"` // with drivers for every usual NIC: the first boot of a machine
	Known   int64  `json:"known"` // with drivers for one known NIC, the largest of testkit.UsualNICs
	NIC     string `json:"nic"`   // the NIC of Known
}

// KernelSizeOf adds up the parts of a version's kernel+initrd.
func KernelSizeOf(m image.Manifest, version string, agent int64) KernelSize {
	k := KernelSize{
		Version: version,
		Release: m.Kernel.Release,
		Kernel:  m.Kernel.Size,
		Agent:   agent,
		Every:   m.Kernel.Size + image.DriversSize(m.AllDrivers()) + agent,
	}
	for _, d := range m.Drivers {
		if len(d.For) == 0 || d.InsteadOf != "" && !slices.Contains(testkit.UsualNICs(), d.Name) {
			continue
		}
		drivers, known := m.DriversFor(image.NIC{Modules: d.For[:1]})
		if size := m.Kernel.Size + image.DriversSize(drivers) + agent; known && size > k.Known {
			k.Known, k.NIC = size, d.Name
		}
	}
	return k
}

// AgentSize returns the size of the node's program as it is sent, in bytes.
func AgentSize(ctx context.Context, bin string) (int64, error) {
	binary, err := os.ReadFile(filepath.Join(bin, "pando-init"))
	if err != nil {
		return 0, err
	}
	cpio, err := initramfs.AgentCPIO(ctx, binary)
	return int64(len(cpio)), err
}
