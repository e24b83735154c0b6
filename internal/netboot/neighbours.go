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

// Settings of a script: the digest of the latest image, where it came from ("s": the server), and the neighbours
// that did not deliver it ("02": the first and the third).
const (
	sumSetting     = "sum"
	fromSetting    = "from"
	refusedSetting = "refused"
	badSetting     = "bad"    // and the index of a neighbour that did not deliver
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
	letter string // in labels and reports
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
	for i := range min(len(in.Neighbours), MaxNeighbours) {
		fmt.Fprintf(b, "clear %s%d ||\n", badSetting, i)
	}
	fmt.Fprintf(b, "initrd --name trust %s/boot/%s/trust || goto failed\n", in.Base, in.Boot)
	if in.Keep {
		fmt.Fprintf(b, "initrd --name head %s/boot/%s/head || goto failed\n", in.Base, in.Boot)
	}
	parts := []part{
		{"k", kernelImage, in.Kernel, " " + line},
		{"i", "initramfs", in.Initramfs, ""},
	}
	for _, p := range parts {
		fmt.Fprintf(b, "clear %s ||\n", refusedSetting)
		for i, n := range in.Neighbours[:min(len(in.Neighbours), MaxNeighbours)] {
			// Who did not deliver the kernel is not asked for the initramfs.
			fmt.Fprintf(b, "isset ${%s%d} && goto %s%d ||\n", badSetting, i, p.letter, i)
			fetch := fmt.Sprintf("imgfetch --name %s --timeout %d %s/o/%s%s", p.image, neighbourTimeout.Milliseconds(),
				n, p.object, p.args)
			check(b, p, fetch, fmt.Sprint(i))
			fmt.Fprintf(b, "imgfree %s ||\nset %s ${%s}%d ||\nset %s%d 1 ||\n:%s%d\n", p.image, refusedSetting,
				refusedSetting, i, badSetting, i, p.letter, i)
		}
		check(b, p, fmt.Sprintf("imgfetch --name %s %s/o/%s%s", p.image, in.Base, p.object, p.args), "s")
		fmt.Fprintf(b, "goto failed\n:%sthere\n", p.letter)
		// The server shows it in the timeline. Without an answer the boot goes on.
		fmt.Fprintf(b, "imgfetch --name report --timeout %d %s/boot/%s/sources?part=%s&from=${%s}&refused=${%s} ||\n"+
			"imgfree report ||\n", neighbourTimeout.Milliseconds(), in.Base, in.Boot, p.letter, fromSetting,
			refusedSetting)
	}
	if in.Keep {
		// iPXE offers its images to Linux by LoadFile2, unless all are hidden; then Linux reads its initrd= arguments.
		// The command shim hides an image. It must come before a kernel is selected.
		b.WriteString("shim trust && shim head && shim initramfs && shim || imgfree head ||\n")
	}
	fmt.Fprintf(b, "imgselect %s || goto failed\n", kernelImage)
	return nil
}

// check writes a fetch whose image is verified. If it is the object, the script goes on at the part's label.
func check(b *bytes.Buffer, p part, fetch, from string) {
	fmt.Fprintf(b, "set %s %s ||\n", fromSetting, from)
	fmt.Fprintf(b, "%s && sha256sum --set %s:hexraw %s && iseq ${%s} %s && goto %sthere ||\n", fetch, sumSetting,
		p.image, sumSetting, p.object, p.letter)
}

// FromServer is the index of the server in a SourceReport.
const FromServer = -1

// SourceReport is what a script reports of one object: where it came from, and which neighbours did not deliver it.
// Indices are those of ScriptInput.Neighbours.
type SourceReport struct {
	Kernel  bool // else the initramfs
	From    int
	Refused []int // in the order in which they were asked
}

// ParseSource parses the query of a report. It returns an error for an index that is not below neighbours.
func ParseSource(q url.Values, neighbours int) (r SourceReport, err error) {
	index := func(s string) int {
		if len(s) != 1 || s[0] < '0' || int(s[0]-'0') >= neighbours {
			err = fmt.Errorf("report of a boot script: %.10q is no neighbour of this boot", s)
			return FromServer
		}
		return int(s[0] - '0')
	}
	switch part := q.Get("part"); part {
	case "k", "i":
		r.Kernel = part == "k"
	default:
		return r, fmt.Errorf("report of a boot script: %.10q is neither kernel nor initramfs", part)
	}
	if r.From = FromServer; q.Get("from") != "s" {
		r.From = index(q.Get("from"))
	}
	refused := q.Get("refused")
	if len(refused) > MaxNeighbours {
		return r, fmt.Errorf("report of a boot script: %d neighbours, more than %d", len(refused), MaxNeighbours)
	}
	for _, s := range strings.Split(refused, "") {
		r.Refused = append(r.Refused, index(s))
	}
	return r, err
}
