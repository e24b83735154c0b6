package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"pando/internal/bench"
	"pando/internal/build/initramfs"
	"pando/internal/image"
	"pando/internal/testkit"
)

// kSize is what K has, the kernel and initramfs that a node loads before it has a root, in bytes. The few hundred
// bytes that are made for each boot are left out.
type kSize struct {
	Recipe  string `json:"recipe,omitempty"` // that the image was built by
	Version string `json:"version"`
	Release string `json:"release"` // of the kernel
	Kernel  int64  `json:"kernel"`
	Agent   int64  `json:"agent"`
	Every   int64  `json:"every"` // with the drivers of every usual NIC: the first boot of a machine
	Known   int64  `json:"known"` // with those of one NIC that is known, the largest of testkit.UsualNICs
	NIC     string `json:"nic"`   // which that is
}

// kOf adds up what a version's K has.
func kOf(m image.Manifest, version string, agent int64) kSize {
	k := kSize{
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

// agentSize is what the node's program has as it is sent.
func agentSize(ctx context.Context, bin string) (int64, error) {
	binary, err := os.ReadFile(filepath.Join(bin, "pando-init"))
	if err != nil {
		return 0, err
	}
	cpio, err := initramfs.AgentCPIO(ctx, binary)
	return int64(len(cpio)), err
}

// withK is what the server sends with K for each node, in W; false where K is not known.
func (k *kSize) withK(r stormRun) (float64, bool) {
	if k == nil || r.BootSet == 0 {
		return 0, false
	}
	return r.amplification() + float64(r.Nodes)*float64(k.Known)/float64(r.BootSet), true
}

// kTargets are what K may have, by the recipe of an image: with every NIC, and with one that is known, in MB.
var kTargets = []struct {
	recipe, name string
	every, known float64
}{{"debian:bookworm", "Debian 12", 18, 12}, {"debian:trixie", "Debian 13", 22, 16}}

// kRows are the images beside what K of them may have.
func kRows(of []kSize) []bench.Row {
	out := []bench.Row{{"image", "Linux", "every usual NIC, MB", "at most", "one NIC, MB", "at most", "NIC"}}
	for _, x := range kTargets {
		for _, k := range of {
			if k.Recipe == x.recipe {
				out = append(out, bench.Row{
					x.name,
					k.Release,
					fmt.Sprintf("%.2f", bench.MB(k.Every)),
					fmt.Sprintf("%.2f", x.every),
					fmt.Sprintf("%.2f", bench.MB(k.Known)),
					fmt.Sprintf("%.2f", x.known),
					k.NIC,
				})
			}
		}
	}
	return out
}
