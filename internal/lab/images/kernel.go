package images

import (
	"fmt"

	"pando/internal/bench"
)

// kTargets are the limits of kernel+initrd in MB, by recipe: with drivers for every NIC, and for one known NIC.
var kTargets = []struct {
	recipe, name string
	every, known float64
}{{"debian:bookworm", "Debian 12", 18, 12}, {"debian:trixie", "Debian 13", 22, 16}}

// kRows lists the images and the limits of their K.
func kRows(of []bench.KernelSize) []bench.Row {
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
