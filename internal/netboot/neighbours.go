package netboot

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// kernelImage is the name of the kernel in iPXE's list of images. iPXE puts it in front of the command line of a kernel
// that UEFI starts. A bare word there would become an argument of /init; Linux knows BOOT_IMAGE= from other loaders.
const kernelImage = "BOOT_IMAGE=linux"

// MaxNeighbours is how many neighbours a script names. Each that is dead costs a boot neighbourTimeout.
const MaxNeighbours = 4

// neighbourTimeout is how long a neighbour may stand still in a transfer. iPXE counts it from the last byte.
const neighbourTimeout = 3 * time.Second

// sumSetting is where a script keeps the digest of the image that came last, and refusedSetting the list of what
// neighbours did wrong: "k0,i1" says that the first one's kernel and the second one's initramfs were refused.
const (
	sumSetting     = "sum"
	refusedSetting = "refused"
	digestsSetting = "sha256" // Ability
)

// probeScript tries the command on the script that is the same for all.
func probeScript(base string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "#!ipxe\nimgfetch --name probe %s%s && sha256sum --set %s:hexraw probe && set %s %s || set %s %s\n",
		base, ScriptPath, sumSetting, digestsSetting, Has, digestsSetting, Lacks)
	b.WriteString("imgfree probe ||\n")
	writeAsk(&b, base, 5)
	return b.Bytes()
}

func isObject(id string) bool { return len(id) == 64 && strings.Trim(id, "0123456789abcdef") == "" }

// part is one of the two objects that a script takes from neighbours.
type part struct {
	letter string // in reports
	image  string // its name in iPXE's list
	object string
	args   string // behind the URL; begins with a space, if not empty
}

// writeNeighbours writes the commands that fetch K from neighbours, and from the server what no neighbour has
// delivered. Nothing is left in iPXE's list that was not verified: iPXE would hand it to the kernel as an initramfs.
// The trust cpio comes first and from the server alone.
func writeNeighbours(b *bytes.Buffer, in ScriptInput, line string) error {
	if !isObject(in.Initramfs) {
		return fmt.Errorf("boot script of %s: initramfs %q is not an object id", in.Node, in.Initramfs)
	}
	for _, n := range in.Neighbours {
		if err := checkBase(n); err != nil {
			return err
		}
	}
	// The kernel of a loader without LoadFile2 finds the parts by these names; others get all images in order.
	line = strings.Replace(line, "initrd=initramfs", "initrd=trust initrd=initramfs", 1)
	fmt.Fprintf(b, "clear %s ||\n", refusedSetting)
	fmt.Fprintf(b, "initrd --name trust %s/boot/%s/trust || goto failed\n", in.Base, in.Boot)
	parts := []part{
		{"k", kernelImage, in.Kernel, " " + line},
		{"i", "initramfs", in.Initramfs, ""},
	}
	for _, p := range parts {
		for i, n := range in.Neighbours[:min(len(in.Neighbours), MaxNeighbours)] {
			fetch := fmt.Sprintf("imgfetch --name %s --timeout %d %s/o/%s%s", p.image, neighbourTimeout.Milliseconds(),
				n, p.object, p.args)
			check(b, p, fetch, fmt.Sprint(i))
			fmt.Fprintf(b, "imgfree %s ||\nset %s ${%s}%s%d. ||\n", p.image, refusedSetting, refusedSetting, p.letter, i)
		}
		check(b, p, fmt.Sprintf("imgfetch --name %s %s/o/%s%s", p.image, in.Base, p.object, p.args), "s")
		fmt.Fprintf(b, "goto failed\n:%sthere\n", p.letter)
	}
	fmt.Fprintf(b, "imgselect %s || goto failed\n", kernelImage)
	// What the server learns from it is for the timeline; the boot goes on without.
	fmt.Fprintf(b, "imgfetch --name report --timeout %d %s/boot/%s/sources?kernel=${fromk}&initramfs=${fromi}&"+
		"refused=${%s} ||\nimgfree report ||\n", neighbourTimeout.Milliseconds(), in.Base, in.Boot, refusedSetting)
	return nil
}

// check writes a fetch whose image is verified; the script goes on behind the part's label if it is the object, and
// notes whose it was.
func check(b *bytes.Buffer, p part, fetch, from string) {
	fmt.Fprintf(b, "set from%s %s ||\n", p.letter, from)
	fmt.Fprintf(b, "%s && sha256sum --set %s:hexraw %s && iseq ${%s} %s && goto %sthere ||\n", fetch, sumSetting, p.image,
		sumSetting, p.object, p.letter)
}
