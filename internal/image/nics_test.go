package image

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func namesOf(drivers []Driver) string {
	var out []string
	for _, d := range drivers {
		out = append(out, d.Name)
	}
	return strings.Join(out, " ")
}

func TestDriversFor(t *testing.T) {
	m := testManifest()
	if got := namesOf(m.AllDrivers()); got != "base net" {
		t.Errorf("all drivers are %q", got)
	}
	for name, c := range map[string]struct {
		nic  NIC
		want string // "": not known
	}{
		"nothing known":            {NIC{}, ""},
		"by its PCI name":          {NIC{PCI: true, Vendor: 0x8086, Device: 0x1533}, "base igb"},
		"driver in base":           {NIC{PCI: true, Vendor: 0x1af4, Device: 0x1000}, "base"},
		"another device":           {NIC{PCI: true, Vendor: 0x8086, Device: 0x1534}, ""},
		"another vendor":           {NIC{PCI: true, Vendor: 0x8087, Device: 0x1533}, ""},
		"not PCI, with zeros":      {NIC{Vendor: 0x8086, Device: 0x1533}, ""},
		"by its module":            {NIC{Modules: []string{"nbd", "usbcore", "r8152"}}, "base usb"},
		"by modules, none a NIC's": {NIC{Modules: []string{"nbd", "usbcore"}}, ""},
		"a second one": {NIC{PCI: true, Vendor: 0x8086, Device: 0x1533,
			Modules: []string{"igb", "asix"}}, "base igb usb"},
		"a new one, an old module":  {NIC{PCI: true, Vendor: 0x10ec, Device: 0x8168, Modules: []string{"igb"}}, ""},
		"virtio, by an old module":  {NIC{Modules: []string{"virtio_net"}}, "base"},
		"virtio and a second, both": {NIC{Modules: []string{"virtio_net", "igb"}}, "base igb"},
	} {
		got, ok := m.DriversFor(c.nic)
		if namesOf(got) != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %t, want %q", name, namesOf(got), ok, c.want)
		}
	}
}

// TestDriversOfOldManifest: an old manifest has one cpio with every NIC and does not say which NICs it is for. Every
// node gets base and that cpio.
func TestDriversOfOldManifest(t *testing.T) {
	m := testManifest()
	m.Drivers = []Driver{
		{Name: "base", Object: m.Kernel.Object, Size: 1},
		{Name: "net", Object: m.Kernel.Object, Size: 2},
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	if got, ok := m.DriversFor(NIC{PCI: true, Vendor: 0x8086, Device: 0x1533, Modules: []string{"igb"}}); ok {
		t.Errorf("a short list %q", namesOf(got))
	}
	if got := namesOf(m.AllDrivers()); got != "base net" {
		t.Errorf("all drivers are %q", got)
	}
	if n := DriversSize(m.AllDrivers()); n != 3 {
		t.Errorf("they have %d bytes", n)
	}
}

func TestPCIOf(t *testing.T) {
	got := PCIOf([]string{
		"pci:v000010ECd00008168sv*sd*bc*sc*i*", "pci:v00008086d00001533sv*sd*bc*sc*i*",
		"pci:v00008086d0000100Esv00001028sd*bc02sc00i00*",
		"pci:v00008086d00001533sv*sd*bc*sc*i*", "pci:v*d*sv*sd*bc0Csc03i30*",
		"usb:v0BDAp8152d*dc*dsc*dp*icFFiscFFip00in*",
		"pci:v00001AF4d*sv*sd*bc*sc*i*", "pci:v00001AF4d00001000sv*sd*bc*sc*i*", "virtio:d00000001v*", "pci:v0001", "",
	})
	if want := PCIList("10ec:8168 1af4:* 8086:100e,1533"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := got.check(); err != nil {
		t.Error(err)
	}
	if !got.Has(0x1af4, 0x1234) || !got.Has(0x8086, 0x100e) || got.Has(0x10ec, 0x8169) || PCIList("").Has(0, 0) {
		t.Error("devices are not found, or found that are not there")
	}
	if PCIOf([]string{"usb:x"}) != "" {
		t.Error("a list of nothing")
	}
	if v, d, ok := PCIDevice("pci:v00008086d00001533sv00001AF4sd00001100bc02sc00i00"); v != 0x8086 || d != 0x1533 ||
		!ok {
		t.Errorf("device of a modalias: %x %x %t", v, d, ok)
	}
	for _, s := range []string{"", "pci:v*d*", "pci:v00008086d*sv*", "virtio:d00000001v00001AF4"} {
		if _, _, ok := PCIDevice(s); ok {
			t.Errorf("%q names a device", s)
		}
	}
	if err := PCIList(strings.Repeat("8086:1521 ", 1000)).check(); err == nil {
		t.Error("a list without a bound")
	}
}

// FuzzPCIOf: the list made from aliases is canonical and contains every device that they name.
func FuzzPCIOf(f *testing.F) {
	f.Add("pci:v00008086d00001533sv*\npci:v00001AF4d*", "8086:1533 1af4:*")
	f.Fuzz(func(t *testing.T, aliases, list string) {
		lines := strings.Split(aliases, "\n")
		l := PCIOf(lines)
		if err := l.check(); err != nil && len(l) <= MaxPCIList {
			t.Errorf("%q of %q: %v", l, aliases, err)
		}
		for _, a := range lines {
			if v, d, ok := PCIDevice(a); ok && !l.Has(v, d) {
				t.Errorf("%q is not in %q", a, l)
			}
		}
		if l = PCIList(list); l.check() == nil && l != "" && PCIOf(aliasesOf(l)) != l {
			t.Errorf("%q passes, and is %q again", l, PCIOf(aliasesOf(l)))
		}
	})
}

func aliasesOf(l PCIList) (out []string) {
	for word := range strings.SplitSeq(string(l), " ") {
		v, list, _ := strings.Cut(word, ":")
		for d := range strings.SplitSeq(list, ",") {
			if d != "*" {
				d = "0000" + strings.ToUpper(d) + "sv"
			}
			out = append(out, "pci:v0000"+strings.ToUpper(v)+"d"+d)
		}
	}
	return out
}

// TestPCIPatterns: the parsers of PCI lists and aliases, written by hand to keep the node's program small, agree with
// regular expressions.
func TestPCIPatterns(t *testing.T) {
	alias := regexp.MustCompile(`^pci:v0000([0-9A-F]{4})d(?:0000([0-9A-F]{4})|(\*))`)
	list := regexp.MustCompile(`^[0-9a-f]{4}:(\*|[0-9a-f]{4}(,[0-9a-f]{4})*)$`)
	r := rand.New(rand.NewPCG(1, 2))
	found := map[string]int{}
	for range 40_000 {
		a := mutated(
			r,
			[]string{"pci:v00008086d00001533sv*", "pci:v00008086d*sv", "pci:v000010ECd00008168"},
			"0AFaG*d:v",
		)
		want := alias.FindStringSubmatch(a)
		v, d, ok := pciAlias(a)
		if ok != (want != nil) || ok && (v != want[1] || d != want[2]+want[3]) {
			t.Fatalf("alias %q: %q %q %v, want %q", a, v, d, ok, want)
		}
		w := mutated(r, []string{"8086:1533,15a6", "1af4:*", "10ec:8168"}, "0afAg*,:")
		if isPCIWord(w) != list.MatchString(w) {
			t.Fatalf("%q: %v", w, isPCIWord(w))
		}
		found[fmt.Sprint("alias ", ok)]++
		found[fmt.Sprint("word ", isPCIWord(w))]++
	}
	for _, k := range []string{"alias true", "alias false", "word true", "word false"} {
		if found[k] < 1000 {
			t.Errorf("%s: %d of all trials", k, found[k])
		}
	}
}

// mutated returns one of some texts with up to two characters changed, or truncated.
func mutated(r *rand.Rand, texts []string, letters string) string {
	b := []byte(texts[r.IntN(len(texts))])
	for range r.IntN(3) {
		b[r.IntN(len(b))] = letters[r.IntN(len(letters))]
	}
	if r.IntN(4) == 0 {
		b = b[:r.IntN(len(b)+1)]
	}
	return string(b)
}
