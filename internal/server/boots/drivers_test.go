package boots

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/registry"
)

// nicDrivers are the drivers of a version with two NICs' of their own.
func nicDrivers(put func(string) chunk.ID) []image.Driver {
	return []image.Driver{
		{Name: "base", Object: put("DRIVERS-OF-BASE!"), Size: 16, For: []string{"virtio_net"}, PCI: "1af4:1000"},
		{Name: "net", Object: put("DRIVERS-OF-EVERY"), Size: 16},
		{
			Name:      "igb",
			Object:    put("DRIVERS-OF-IGB!!"),
			Size:      16,
			InsteadOf: "net",
			For:       []string{"igb"},
			PCI:       "8086:1533",
		},
		{
			Name:      "r8169",
			Object:    put("DRIVERS-OF-R8169"),
			Size:      16,
			InsteadOf: "net",
			For:       []string{"r8169"},
			PCI:       "10ec:8168",
		},
	}
}

const realtekAlias = "pci:v000010ECd00008168sv00001043sd00008554bc02sc00i00"

func TestChooseDrivers(t *testing.T) {
	m := image.Manifest{Drivers: nicDrivers(func(string) chunk.ID { return chunk.ID{} })}
	igb := image.NIC{PCI: true, Vendor: 0x8086, Device: 0x1533}
	reached := func(list string, modules ...string) attempt {
		return attempt{boot: "b", version: "v", list: list, reached: true, modules: modules}
	}
	lost := func(list string) attempt { return attempt{boot: "b", version: "v", list: list} }
	missing := func(a attempt, alias string) attempt {
		a.missing = []string{alias}
		return a
	}
	for name, c := range map[string]struct {
		nic    image.NIC
		past   []attempt // the newest first
		never  bool      // the node never reboots by itself
		want   string
		reason string
	}{
		"unknown":                       {want: "*"},
		"a PCI device of no driver":     {nic: image.NIC{PCI: true, Vendor: 1, Device: 1}, want: "*"},
		"known by iPXE, the first time": {nic: igb, want: "base igb"},
		"it worked":                     {nic: igb, past: []attempt{reached("base igb", "igb")}, want: "base igb"},
		"known by what drove it":        {past: []attempt{reached("*", "nbd", "r8169")}, want: "base r8169"},
		"two": {nic: igb, past: []attempt{reached("*", "igb", "r8169")},
			want: "base igb r8169"},
		"lost": {nic: igb, past: []attempt{lost("base igb")}, want: "*",
			reason: "boot b was sent those of base igb only, and did not"},
		"lost with every NIC's too": {nic: igb, past: []attempt{lost("*"), lost("base igb")},
			want: "base igb"},
		"lost, then every NIC's": {nic: igb, past: []attempt{reached("*", "igb"), lost("base igb")},
			want: "base igb"},
		"lost again": {nic: igb,
			past: []attempt{reached("*", "igb"), lost("base igb"), reached("*", "igb"), lost("base igb")}, want: "*",
			reason: "2 boots in a row"},
		"lost again, but it worked between": {nic: igb,
			past: []attempt{reached("*", "igb"), lost("base igb"), reached("base igb", "igb"), lost("base igb")},
			want: "base igb"},
		"lost twice, another list": {nic: igb,
			past: []attempt{reached("*", "igb", "r8169"), lost("base igb"), lost("base igb")}, want: "base igb r8169"},
		"a NIC without its driver": {nic: igb,
			past: []attempt{missing(reached("base igb", "igb"), realtekAlias)}, want: "*",
			reason: "its NIC " + realtekAlias},
		"without it whatever is sent": {nic: igb, past: []attempt{missing(reached("*", "igb"), realtekAlias)},
			want: "base igb"},
		"without, though its cpio was sent": {nic: igb,
			past: []attempt{missing(reached("base igb r8169", "igb", "r8169"), realtekAlias)}, want: "base igb r8169"},
		"a NIC of no driver at all": {nic: igb,
			past: []attempt{missing(reached("base igb", "igb"), "pci:v00000001d00000001sv")}, want: "base igb"},
		"never reboots": {nic: igb, never: true, want: "*", reason: "never reboots"},
		"never reboots, but it has worked": {nic: igb, never: true, past: []attempt{reached("base igb", "igb")},
			want: "base igb"},
		"never reboots, known by its module": {never: true, past: []attempt{reached("*", "igb")}, want: "*",
			reason: "never reboots"},
	} {
		got := chooseDrivers(m, "v", c.nic, c.past, !c.never)
		if got.list != c.want || !strings.Contains(got.why, c.reason) || (got.why == "") != (c.reason == "") {
			t.Errorf("%s: %+v, want %q because %q", name, got, c.want, c.reason)
		}
	}
	again := chooseDrivers(m, "v2", igb, []attempt{reached("*", "igb"), lost("base igb"), lost("base igb")}, true)
	if again.list != "base igb" {
		t.Errorf("another version starts again, got %+v", again)
	}
	m.Drivers = []image.Driver{{Name: "base"}, {Name: "net"}}
	if got := chooseDrivers(m, "v", igb, []attempt{reached("*", "igb")}, true); got.list != everyNIC || got.why != "" {
		t.Errorf("a manifest that says nothing of NICs: %+v", got)
	}
}

func TestAttemptsOf(t *testing.T) {
	now := time.Now()
	got := attemptsOf([]registry.Boot{
		{ID: "4", Drivers: []string{"base"}}, // its script was sent, and nothing else
		{
			ID:        "3",
			Drivers:   []string{"base", "*"},
			TokenMade: now,
			TokenUsed: now,
			Hardware:  []byte(`{"modules":["igb"],"missing":["pci:x"]}`),
		},
		{ID: "2", Drivers: []string{"base"}, TokenMade: now},
		{ID: "1", TokenMade: now, TokenUsed: now}, // by a server that recorded no lists
	})
	var text []string
	for _, a := range got {
		text = append(text, string(a.boot)+" "+a.list+" "+strings.Join(append(a.modules, a.missing...), ","))
		if a.reached != (a.modules != nil) {
			t.Errorf("%+v", a)
		}
	}
	if want := []string{"3 * igb,pci:x", "3 base ", "2 base "}; !slices.Equal(text, want) {
		t.Errorf("got %q, want %q", text, want)
	}
}

// A script without a request for its initramfs leaves no list, and the number of lists is bounded.
func TestAddList(t *testing.T) {
	b := registry.Boot{}
	addList(&b, "base")
	addList(&b, "base igb")
	if !slices.Equal(b.Drivers, []string{"base igb"}) {
		t.Errorf("nothing was sent, but on record are %q", b.Drivers)
	}
	b.TokenMade = time.Now()
	for range 2 * maxLists {
		addList(&b, everyNIC)
	}
	if len(b.Drivers) != maxLists {
		t.Errorf("%d lists", len(b.Drivers))
	}
}

// A list with cpios that the version does not have counts as everyNIC.
func TestDriversOfForeignList(t *testing.T) {
	m := image.Manifest{Drivers: nicDrivers(func(string) chunk.ID { return chunk.ID{} })}
	for list, want := range map[string]string{"base igb": "base igb", "*": "base net", "base e1000e": "base net",
		"base": "base"} {
		got, short := driversOf(m, registry.Boot{Drivers: []string{"base r8169", list}})
		if listOf(got) != want || short != (want == list) {
			t.Errorf("%q: %q, short %t, want %q", list, listOf(got), short, want)
		}
	}
	if got, short := driversOf(m, registry.Boot{Version: fleet.Digest("x")}); listOf(got) != "base net" || short {
		t.Errorf("no list: %q", listOf(got))
	}
}
