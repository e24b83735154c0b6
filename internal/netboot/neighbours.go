package netboot

import (
	"bytes"
	"fmt"
	"net/url"
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
// neighbours did wrong: "k0.i1." says that the first one's kernel and the second one's initramfs were refused.
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

// part is one of the two objects that a script verifies.
type part struct {
	letter string // in reports
	image  string // its name in iPXE's list
	object string
	args   string // behind the URL; begins with a space, if not empty
}

// The initrd= arguments of a verified boot. The EFI stub of Linux reads the named images in this order and joins them.
// With the head before them, kernel and initramfs are first a file of the initramfs, from which the node serves them to
// its neighbours; then the initramfs follows once more, and is unpacked.
const (
	initrdPlain = "initrd=trust initrd=initramfs"
	initrdKept  = "initrd=trust initrd=head initrd=" + kernelImage + " initrd=initramfs initrd=initramfs"
)

// writeVerified writes the commands that fetch kernel and initramfs from neighbours, and from the server what no
// neighbour delivered. Nothing stays in iPXE's list that was not verified: iPXE would hand it to the kernel as an
// initramfs. The trust cpio comes from the server alone.
func writeVerified(b *bytes.Buffer, in ScriptInput, line string) error {
	if !isObject(in.Initramfs) {
		return fmt.Errorf("boot script of %s: initramfs %q is not an object id", in.Node, in.Initramfs)
	}
	for _, n := range in.Neighbours {
		if err := checkBase(n); err != nil {
			return err
		}
	}
	initrd := initrdPlain
	if in.Keep {
		initrd = initrdKept
	}
	line = strings.Replace(line, "initrd=initramfs", initrd, 1)
	if len(line) > maxLine {
		return fmt.Errorf("kernel command line of %s is %d bytes long; Linux takes %d", in.Node, len(line), maxLine)
	}
	fmt.Fprintf(b, "clear %s ||\n", refusedSetting)
	fmt.Fprintf(b, "initrd --name trust %s/boot/%s/trust || goto failed\n", in.Base, in.Boot)
	if in.Keep {
		fmt.Fprintf(b, "initrd --name head %s/boot/%s/head || goto failed\n", in.Base, in.Boot)
	}
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
	if in.Keep {
		// iPXE offers its images to Linux by LoadFile2, unless all are hidden; then Linux reads its initrd= arguments.
		// The command shim hides an image. It must come before a kernel is selected.
		b.WriteString("shim trust && shim head && shim initramfs && shim || imgfree head ||\n")
	}
	fmt.Fprintf(b, "imgselect %s || goto failed\n", kernelImage)
	// The server shows it in the timeline. Without an answer the boot goes on.
	fmt.Fprintf(b, "imgfetch --name report --timeout %d %s/boot/%s/sources?kernel=${fromk}&initramfs=${fromi}&"+
		"refused=${%s} ||\nimgfree report ||\n", neighbourTimeout.Milliseconds(), in.Base, in.Boot, refusedSetting)
	return nil
}

// check writes a fetch whose image is verified. If it is the object, the script goes on at the part's label.
func check(b *bytes.Buffer, p part, fetch, from string) {
	fmt.Fprintf(b, "set from%s %s ||\n", p.letter, from)
	fmt.Fprintf(b, "%s && sha256sum --set %s:hexraw %s && iseq ${%s} %s && goto %sthere ||\n", fetch, sumSetting, p.image,
		sumSetting, p.object, p.letter)
}

// FromServer is the index of the server in a SourceReport.
const FromServer = -1

// SourceReport is what a script reports about where kernel and initramfs came from. Indices are those of
// ScriptInput.Neighbours.
type SourceReport struct {
	Kernel, Initramfs int
	Refused           []Refusal // in the order in which they happened
}

// Refusal is an object that a neighbour did not deliver.
type Refusal struct {
	Neighbour int
	Kernel    bool // else the initramfs
}

// ParseSources parses the query of a report. It returns an error for an index that is not below neighbours.
func ParseSources(q url.Values, neighbours int) (r SourceReport, err error) {
	index := func(s string) int {
		if len(s) != 1 || s[0] < '0' || int(s[0]-'0') >= neighbours {
			err = fmt.Errorf("report of a boot script: %.10q is no neighbour of this boot", s)
			return FromServer
		}
		return int(s[0] - '0')
	}
	from := func(s string) int {
		if s == "s" {
			return FromServer
		}
		return index(s)
	}
	r.Kernel, r.Initramfs = from(q.Get("kernel")), from(q.Get("initramfs"))
	refused := q.Get("refused")
	if len(refused) > 3*2*MaxNeighbours {
		return r, fmt.Errorf("report of a boot script: %d bytes of refusals", len(refused))
	}
	for _, s := range strings.Split(strings.TrimSuffix(refused, "."), ".") {
		if s == "" {
			continue
		}
		if s[0] != 'k' && s[0] != 'i' {
			return r, fmt.Errorf("report of a boot script: %.10q is neither kernel nor initramfs", s)
		}
		r.Refused = append(r.Refused, Refusal{Neighbour: index(s[1:]), Kernel: s[0] == 'k'})
	}
	return r, err
}
