package kmod

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/image"
	"pando/internal/testkit/nodekit"
)

func TestMatchPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"*", "", true},
		{"*", "anything", true},
		{"pci:v00008086d0000100Esv*sd*bc*sc*i*", "pci:v00008086d0000100Esv00001AF4sd00001100bc02sc00i00", true},
		{"pci:v00008086d0000100Esv*sd*bc*sc*i*", "pci:v00008086d0000100Fsv00001AF4sd00001100bc02sc00i00", false},
		{"usb:v0BDAp8153d*dc*dsc*dp*icFFisc*ip*in*", "usb:v0BDAp8153d3000dc00dsc00dp00icFFiscFFip00in00", true},
		{"usb:v046Dp0900d000[0-9a]dc*", "usb:v046Dp0900d000adcFF", true},
		{"usb:v046Dp0900d000[0-9a]dc*", "usb:v046Dp0900d000bdcFF", false},
		{"a[!b]c", "axc", true},
		{"a[!b]c", "abc", false},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "aXbYbZ", false},
		{"a[", "a[", false},
		{"a[]", "a", false},
		{"abc", "ab", false},
		{"ab", "abc", false},
	} {
		if got := matchPattern(c.pattern, c.s); got != c.want {
			t.Errorf("matchPattern(%q, %q) = %v, want %v", c.pattern, c.s, got, c.want)
		}
	}
}

func FuzzMatchPattern(f *testing.F) {
	f.Add("pci:v*d[0-9]*", "pci:v1d2")
	f.Add("*[", "x")
	f.Add("[!-]*?", "--")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		matchPattern(pattern, s)
		if !matchPattern(pattern+"*", s) && matchPattern(pattern, s) {
			t.Errorf("%q matches %q, but not with a star behind it", pattern, s)
		}
	})
}

// index returns an index of two sets, as the builder splits them.
func index() *Index {
	x := &Index{modules: map[string]image.Module{}, aliases: map[string][]alias{}}
	x.add(image.DriverSet{Format: 1, Name: "base", Always: []string{"nbd", "erofs"}, Modules: []image.Module{
		{Name: "nbd"},
		{Name: "erofs", Needs: []string{"crc32c_generic", "libcrc32c"}},
		{Name: "crc32c_generic", Aliases: []string{"crypto-crc32c"}},
		{Name: "libcrc32c", Needs: []string{"crc32c_generic"}},
		{Name: "virtio_net", Needs: []string{"failover"}, Aliases: []string{"virtio:d00000001v*"}},
		{Name: "failover"},
	}})
	x.add(image.DriverSet{Format: 1, Name: "net", Modules: []image.Module{
		{Name: "r8169", Needs: []string{"realtek"}, Aliases: []string{"pci:v000010ECd00008168sv*sd*bc*sc*i*"}},
		{Name: "realtek", Aliases: []string{"mdio:0000000000011100110010010001????"}},
	}})
	return x
}

func moduleNames(ms []image.Module) []string {
	var out []string
	for _, m := range ms {
		out = append(out, m.Name)
	}
	return out
}

func TestModuleOrder(t *testing.T) {
	x := index()
	none := func(string) bool { return false }
	got := moduleNames(x.order(x.Always, none))
	if want := []string{"nbd", "crc32c_generic", "libcrc32c", "erofs"}; !slices.Equal(got, want) {
		t.Errorf("always in the order %v, want %v", got, want)
	}
	got = moduleNames(x.order([]string{"r8169", "unknown"}, func(n string) bool { return n == "realtek" }))
	if want := []string{"r8169"}; !slices.Equal(got, want) {
		t.Errorf("r8169 without the loaded realtek: %v, want %v", got, want)
	}
}

func TestDriverMatch(t *testing.T) {
	x := index()
	for alias, want := range map[string][]string{
		"pci:v000010ECd00008168sv00001043sd00008554bc02sc00i00": {"r8169"},
		"mdio:00000000000111001100100100011111":                 {"realtek"},
		"virtio:d00000001v00001AF4":                             {"virtio_net"},
		"crypto-crc32c":                                         {"crc32c_generic"},
		// by name, as request_module does
		"crc32c-generic":         {"crc32c_generic"},
		"pci:v00008086d0000100E": nil,
	} {
		if got := x.match(alias); !slices.Equal(got, want) {
			t.Errorf("match(%q) = %v, want %v", alias, got, want)
		}
	}
}

// A module that finds no hardware for it fails no boot. Other failures are reported, and no module is tried twice.
func TestModuleForAnotherProcessor(t *testing.T) {
	l := NewLoader(index(), CommandLine{})
	tried := map[string]int{}
	l.insert = func(m image.Module, _ []string) error {
		tried[m.Name]++
		switch m.Name {
		case "crc32c_generic":
			return fmt.Errorf("load module %s: %w", m.Name, unix.ENODEV)
		case "realtek":
			return fmt.Errorf("load module %s: %w", m.Name, unix.EINVAL)
		}
		return nil
	}
	for range 2 {
		if err := l.Load(l.Index.Always); err != nil {
			t.Errorf("a module that is for another processor: %v", err)
		}
	}
	if !slices.Equal(l.Names, []string{"nbd", "libcrc32c", "erofs"}) || tried["crc32c_generic"] != 1 {
		t.Errorf("loaded %v, tried %v", l.Names, tried)
	}
	if err := l.Load([]string{"r8169"}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a module that does not fit: %v", err)
	}
}

// A module that every boot needs fails each time, also with ENODEV.
func TestNeededModuleFails(t *testing.T) {
	for _, no := range []error{unix.ENODEV, unix.EINVAL} {
		l, tried := NewLoader(index(), CommandLine{}), 0
		l.insert = func(m image.Module, _ []string) error {
			if m.Name == "nbd" {
				tried++
				return fmt.Errorf("load module %s: %w", m.Name, no)
			}
			return nil
		}
		for range 2 {
			if err := l.Load(l.Index.Always); !errors.Is(err, no) || !strings.Contains(err.Error(), "nbd") {
				t.Errorf("nbd with %v: %v", no, err)
			}
		}
		if tried != 1 {
			t.Errorf("nbd with %v is tried %d times", no, tried)
		}
	}
}

// The error for a driver that the kernel has and that was not sent says what to do.
func TestDriverThatWasNotSent(t *testing.T) {
	x := index()
	x.add(image.DriverSet{Format: 1, Name: "net", Modules: []image.Module{
		{Name: "cxgb4", Aliases: []string{"pci:v00001425d00005401sv*"}}}})
	l := NewLoader(x, CommandLine{})
	names := l.Wanted([]string{"pci:v00001425d00005401sv00001425sd00000000bc02sc00i00"})
	if err := l.Load(names); err == nil || !strings.Contains(err.Error(), "--driver cxgb4") {
		t.Errorf("%v: %v", names, err)
	}
}

func TestWantedSkipsLoadedFailedAndBlacklisted(t *testing.T) {
	l := NewLoader(index(), ParseCommandLine("modprobe.blacklist=virtio-net"))
	l.Loaded["r8169"] = true
	aliases := []string{
		"virtio:d00000001v00001AF4",
		"pci:v000010ECd00008168sv0sd0bc02sc00i00",
		"crypto-crc32c",
		"crypto-crc32c",
	}
	if got, want := l.Wanted(aliases), []string{"crc32c_generic"}; !slices.Equal(got, want) {
		t.Errorf("wanted %v, want %v", got, want)
	}
}

// MMC cards have no modalias file.
func TestAliasesOfDevices(t *testing.T) {
	sys := nodekit.SysTree(t, map[string]string{
		"bus/pci/devices/0000:00:04.0/modalias": "pci:v00001B36d00000007",
		"bus/pci/devices/0000:00:05.0/modalias": "pci:v00001B36d00000007",
		"bus/mmc/devices/mmc0:4567/uevent":      "MMC_TYPE=SD\nMMC_NAME=QEMU!\nMODALIAS=mmc:block",
		"bus/mmc/devices/mmc1:0001/uevent":      "MMC_TYPE=SDIO",
	})
	if got := DeviceAliases(sys); !slices.Equal(got, []string{"mmc:block", "pci:v00001B36d00000007"}) {
		t.Errorf("modaliases %q", got)
	}
}
