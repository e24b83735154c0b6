package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pando/internal/testkit"
)

// aloneResult is what was measured: seconds from /init to the default target, by way, a round each.
type aloneResult struct {
	Date    time.Time            `json:"date"`
	Machine string               `json:"machine"`
	KVM     bool                 `json:"kvm"`
	Image   string               `json:"image"`
	Version string               `json:"version"`
	BootSet int64                `json:"boot_set"` // bytes
	Seconds map[string][]float64 `json:"seconds"`
}

func newAloneResult(m *material, image string) *aloneResult {
	return &aloneResult{Date: time.Now().UTC().Truncate(time.Second), Machine: machine(), KVM: testkit.HasKVM(), Image: image,
		Version: string(m.version), BootSet: m.bootSet, Seconds: map[string][]float64{}}
}

// paired is the median of the ratios of one round each: what else the machine did in a round falls out.
func paired(a, b []float64) float64 {
	var ratios []float64
	for i := range min(len(a), len(b)) {
		ratios = append(ratios, a[i]/b[i])
	}
	return middle(ratios)
}

func middle(of []float64) float64 { return median(slices.Sorted(slices.Values(of))) }

// table has a line for each way, with Pando's time as a ratio to it.
func (r *aloneResult) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s %10s %10s %10s %14s  %s\n", "way", "median s", "min s", "max s", "Pando / it", "what")
	for _, w := range ways() {
		s := r.Seconds[w.name]
		if len(s) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%-18s %10.2f %10.2f %10.2f %14.3f  %s\n", w.name, middle(s), slices.Min(s), slices.Max(s),
			paired(r.Seconds["pando"], s), w.what)
	}
	fmt.Fprintf(&b, "%s\n", r.Machine)
	if !r.KVM {
		b.WriteString("Emulated processors: the processor's part of a boot is some ten times as long as on a real machine, so ratios are nearer to 1.\n")
	}
	return b.String()
}
