package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pando/internal/store"
)

// writePage writes the page of all results, and its diagrams beside it.
func (s *storm) writePage(ctx context.Context) error {
	dir := strings.TrimSuffix(s.page, filepath.Ext(s.page))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var out strings.Builder
	out.WriteString(pageHead)
	for _, file := range s.from {
		r, err := readReport(file)
		if err != nil {
			return err
		}
		r.Modelled = r.model()
		if err := r.draw(ctx, dir, r.called()+"-", false); err != nil {
			return err
		}
		alone, err := readAlone(file)
		if err != nil {
			return err
		}
		screen, err := keepRaw(file, dir, r.called())
		if err != nil {
			return err
		}
		r.section(&out, filepath.Base(dir), screen, alone)
	}
	if err := otherSection(&out, s.from[0]); err != nil {
		return err
	}
	fmt.Fprintf(&out, pageFoot, inCheckout(s.page), inCheckout(s.from...))
	return store.WriteFile(s.page, []byte(out.String()), 0o644)
}

// readBeside reads what another measurement left beside the results; nil: nothing.
func readBeside[T any](results, name string) (*T, error) {
	file := filepath.Join(filepath.Dir(results), name)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	out := new(T)
	if err == nil {
		err = json.Unmarshal(b, out)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// readAlone reads what was measured of one machine alone, by each clock.
func readAlone(results string) (out []*aloneResult, err error) {
	for _, clock := range []string{byInstructions, byWall, byReplay} {
		a, err := readBeside[aloneResult](results, (&aloneResult{Clock: clock}).file())
		if err != nil {
			return nil, err
		}
		if a != nil {
			out = append(out, a)
		}
	}
	return out, nil
}

// draw writes the diagrams of what was not discarded, as SVG and PNG.
func (r *report) draw(ctx context.Context, dir, prefix string, busy bool) error {
	for _, name := range slices.Sorted(maps.Keys(plots)) {
		file := filepath.Join(dir, prefix+name+".svg")
		svg := r.svg(plots[name], busy)
		if svg == "" {
			continue
		}
		if err := os.WriteFile(file, []byte(svg), 0o644); err != nil {
			return err
		}
		if err := command(ctx, "rsvg-convert", "--zoom", "2", "--output", strings.TrimSuffix(file, ".svg")+".png", file); err != nil {
			return err
		}
	}
	return nil
}

const pageHead = `# Benchmarks

What a boot storm takes, with Pando and with what else is in use, on links whose rate each row names. This page is written by
` + "`pando-lab storm --page`" + ` from what ` + "`make bench-storm`" + ` has measured; the figures are not edited.

**How it is measured.** A real server, a network namespace with a link of its own for each node, and on each node the real
client: of Pando the block daemon, of the others the programs that are named below. The only thing that is not there is the
kernel's block device or mount: the lab makes the reads that a real boot was recorded to make, with its pauses, and compares
every byte. Links are slow enough for one machine to play all nodes; a run in which its processors were more than 70 % busy is
discarded, and named below its table, and so is a rival's that failed twice. Links count frames as Ethernet does, with preamble, checksum and gap: 1,538 bytes for 1,448 of
data, or 1,460 without the time stamps of TCP, which nodes of Pando leave out while they boot, of releases after a946163. W is what the boot pack has on the wire, B the rate of a node's link and of the server's, eta the 94 % of it that
TCP leaves for data. W/(eta B) is the time in which one link carries one boot set; of a storm figures in it hardly depend on the rate, but one node alone waits less for a
slow link's round trips and for its own work in it, so compare rows of the same B. A port has a queue of 50 ms of its rate, but at least of 128 KiB, as the port of a small switch has, and TCP waits at least as long
before it sends again, twice the queue: slow links stand for fast ones. Each row is so many runs as it says, mostly one: what they differ by is in brackets where there are several.
t_one is how long one node takes by itself, t_p50 when half of the nodes have booted and t_last when the last one has, with the pauses that a boot makes between its reads; the storm
ratio is t_last to t_one. "set" is when the last one had its boot set, which it may have before it has read it. Server amplification is what left the server's
link, of up to 1,514 bytes a frame as the kernel counts them, in W. A node's interfaces have the queue that Linux gives them, pfifo_fast, below the
rate of the link.

` + "`make bench-storm` chooses each system's links so that its storm ends soon; `--rate` puts all on the same. Systems whose rows have the same B had the same links." + `

**What it flatters.** The round trip is about 50 µs, not the 200 µs of a real switch, which is good for those who ask often: NFS
and NBD; longer ones have a table of their own where they were measured. All nodes make the same reads, of a boot that the boot pack was made of. NFS is not charged for files that a boot only looks at. The whole image is not charged for being unpacked. Links carry no ARP, and, of releases after 976ed13, no IPv6.
What it is hard on: the lab's client of NFS has one read under way on each of its connections, and no cache of names. The kernel's own is among the emulated machines. Kernel and
initramfs, K, come before, to each node from the server, whatever serves the root; their time is not part of it, and their bytes
are in the column "with K" only, where all are charged what Pando's have, its NIC known.
`

// called is the image's name on the page and in the names of its diagrams. Images are called alike whose boots end
// elsewhere: that tells them apart.
func (r *report) called() string {
	if r.Until == "" {
		return r.Image
	}
	return r.Image + "-" + string(r.Until)
}

// section is one image's part of the page.
func (r *report) section(out *strings.Builder, dir, screen string, alone []*aloneResult) {
	fmt.Fprintf(out, "\n## The image %s\n\n", r.called())
	until := ""
	if r.Until != "" {
		until = ", until its mark `" + r.Until + "`,"
	}
	fmt.Fprintf(
		out,
		"Version `%.19s…`, a root of %.0f MB. A boot%s reads %.1f MB; its boot pack has %.1f MB of that on the "+
			"wire, W.\n",
		r.Version,
		mega(r.RootSize),
		until,
		mega(r.Read),
		mega(r.BootSet),
	)
	out.WriteString(r.Unseen.text())
	fmt.Fprintf(
		out,
		"Measured on %s: %s. Of several runs the median is shown, of an even number the slower of the two in the "+
			"middle.\n%s\n\n```\n%s\n```\n\n",
		r.Date.Format(time.DateOnly),
		r.Machine,
		r.notes(),
		strings.Join(r.commands(), "\n"),
	)
	if screen != "" {
		fmt.Fprintf(out, "![what a machine showed when a boot of it was recorded until there](%s/%s)\n\n", dir, screen)
	}
	for _, name := range slices.Sorted(maps.Keys(plots)) {
		if svg := r.svg(plots[name], false); svg != "" {
			fmt.Fprintf(out, "![%s](%s/%s-%s.svg)\n\n", plots[name].title, dir, r.called(), name)
		}
	}
	rows := r.rows(false)
	out.WriteString(markdown(append([]row{heads}, rows...)))
	if text := scaledText(rows); text != "" {
		out.WriteString("\n" + text)
	}
	out.WriteString(discardedText(r.Runs) + r.nothingText() + r.besideText() + r.rivalSetText())
	if len(r.Modelled) > 0 {
		fmt.Fprintf(out, "\nWhat is marked as modelled was not measured: %s.\n", modelText)
	}
	out.WriteString("\n" + r.systemsText())
	out.WriteString("\n### What it took\n\n" + costText + markdown(append([]row{costHeads}, r.costRows(false)...)))
	out.WriteString(
		"\n### What was aimed at\n\n" + markdown(
			r.targets(alone...),
		) + "\nWhy some of it was missed: [benchmarks-why.md](benchmarks-why.md).\n",
	)
	for i, a := range alone {
		if i == 0 {
			out.WriteString("\n### One machine alone\n")
		}
		fmt.Fprintf(
			out,
			"\n`%s`, %s, release of Pando: %s%s:\n\n```\n%s```\n",
			a.command(),
			a.Date.Format(time.DateOnly),
			releaseOf(a.Release),
			a.buildText(r.Version),
			a.table(),
		)
	}
	out.WriteString("\n### Where Pando loses\n\n" + r.losses(alone...))
	if rows := r.guestRows(alone...); len(rows) > 0 {
		out.WriteString(
			"\n### Emulated machines\n\n" + guestText + r.guestSetText(
				alone,
			) + "\n\n" + markdown(
				append([]row{guestHeads}, rows...),
			),
		)
	}
	if rows := r.withKRows(false); len(rows) > 0 {
		out.WriteString(
			"\n### From power-on, with K\n\n" + withKText + r.withKSetText() + markdown(
				append([]row{withKHeads}, rows...),
			) + discardedText(
				r.WithK,
			),
		)
	}
	if rows := r.pairRows(); len(rows) > 0 {
		out.WriteString(
			"\n### Longer round trips, and a server with nothing in memory\n\n" + pairText + markdown(
				append([]row{pairHeads}, rows...),
			) + discardedText(
				r.Pairs,
			),
		)
	}
	if rows := r.faultRows(); len(rows) > 0 {
		out.WriteString(
			"\n### When something goes wrong\n\n" + faultText + r.faultSetText() + markdown(
				append([]row{faultHeads}, rows...),
			) + r.failedText() + discardedText(
				r.Faults,
			),
		)
	}
}

// otherSection is about what is the same for all images: kernel and initramfs, and updates.
func otherSection(out *strings.Builder, results string) error {
	k, err := readBeside[kResult](results, "k.json")
	if err != nil {
		return err
	}
	u, err := readBeside[updateResult](results, "update.json")
	if err != nil {
		return err
	}
	if k == nil {
		k = &kResult{}
	}
	out.WriteString(
		"\n## Kernel and initramfs, and updates\n\n" + otherText + markdown(
			targetRows(append(kRows(k.Images), u.target())...),
		),
	)
	if u != nil && len(u.Packages) > 0 {
		fmt.Fprintf(out, "\nThe packages: %s.\n", strings.Join(u.Packages, ", "))
	}
	return nil
}

const otherText = "By `make bench-k` and `make bench-update`. K is the kernel and the initramfs, as they are " +
	"sent. The update is that from a " +
	"point release of Debian to the packages of today.\n\n"

const faultText = "It happens when the storm is half of W/(eta B) old, or to a cache disk that is taken away when " +
	"its node has read a quarter of W from it (after 0.7 s, of releases up to 3801242); bad peers and all else of " +
	"cache disks are there from the beginning. Every byte that a node read was " +
	"compared with the image. Of several runs with one release on the same links a line is of the worst: that in " +
	"which nodes failed, or else the slowest. " +
	"The last column says who has to have the fault on its timeline, beside at least one.\n\n"

// faultSetText says so when these storms were measured with another boot pack.
func (r *report) faultSetText() string {
	if r.FaultSet == 0 {
		return ""
	}
	return otherSetText(r.FaultSet)
}

func otherSetText(w int64) string {
	return fmt.Sprintf(
		"These storms were measured with another boot pack of the same version, recorded anew: its W is %.2f MB.\n\n",
		float64(w)/1e6,
	)
}

// rivalSetText says so when rivals were measured with the reads of another recorded boot.
func (r *report) rivalSetText() string {
	var other []string
	w := int64(0)
	for _, x := range r.Runs {
		text := fmt.Sprintf("`%s` with %d on links of %s", x.System, x.Nodes, x.links())
		if x.BootSet != r.BootSet && !slices.Contains(other, text) {
			other, w = append(other, text), x.BootSet
		}
	}
	if len(other) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"\nOf another recorded boot of the same version, whose W is %.2f MB: %s. They have no boot pack, and W is "+
			"a unit to them.\n",
		float64(w)/1e6,
		strings.Join(other, ", "),
	)
}

// systemsText says what the systems are.
func (r *report) systemsText() string {
	var out strings.Builder
	seen := map[string]bool{}
	for _, k := range r.kinds() {
		if !seen[k.system] {
			seen[k.system] = true
			fmt.Fprintf(&out, "- `%s`: %s\n", k.system, describe(k.system))
		}
	}
	return out.String()
}

func describe(name string) string {
	for _, s := range append(own(), rivals(dnbd3{"-", "-"})...) {
		if s.name == name {
			return s.what
		}
	}
	return "not known to this lab"
}

// markdown is a table; its first row is the head.
func markdown(rows []row) string {
	var out strings.Builder
	for i, r := range rows {
		for len(r) < len(rows[0]) {
			r = append(r, "")
		}
		fmt.Fprintf(&out, "| %s |\n", strings.Join(r, " | "))
		if i == 0 {
			out.WriteString(strings.Repeat("| --- ", len(r)) + "|\n")
		}
	}
	return out.String()
}

const pageFoot = `
## To measure it again

On an idle machine, as root:

    make bench-storm           # up to 40 nodes
    make bench-storm FULL=1    # up to 200 nodes, and 40 of a desktop
    make bench-storm STORM="--add --nodes 1 --rate 10mbit --delay 15ms"   # longer round trips; --cold: a server with nothing in memory
    make bench-storm STORM="--add --nodes 10,1 --rate 12mbit"   # all systems on the same links: 50 min, and of a desktop, at 20mbit, 3 h 15 min
    make bench-storm STORM="--add --nodes 10 --fault all --rate 8mbit"
    make bench-storm STORM="--add --nodes 1,10,40 --rate 20mbit --k"   # from power-on, with K
    make bench-alone           # one emulated machine by itself
    make bench-alone ALONE=--replay   # a recorded boot on the processors that there are, after it
    make bench-k               # kernel and initramfs of Debian 12 and 13
    make bench-update          # bytes of an update
    build/bin/pando-lab storm --page %s --from %s

The raw data of each run and node is in [benchmarks/raw](benchmarks/raw), of the images that have a directory there; the last command can be given those files as well. ` + "`pando-lab storm -h`" + ` lists what can be chosen. dnbd3 is measured too where its
programs are named with ` + "`--dnbd3-server` and `--dnbd3-client`" + `: Debian does not have them.
`
