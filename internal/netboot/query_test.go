package netboot

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// realQuery is what the iPXE of Debian 12 sent from a QEMU machine, following Chain.
const realQuery = "mac=52-54-00-12-34-58&ip=10.77.0.160&uuid=11223344-5566-7788-99aa-bbccddeeff01&busid=011af41000&arch=x86_64&platform=efi" +
	"&version.hex=312e302e302b6769742d32303139303132352e333661346338352d352e31&serial.hex=&manufacturer.hex=51454d55" +
	"&product.hex=5374616e646172642050432028693434304658202b20504949582c203139393629"

func TestParseQuery(t *testing.T) {
	q, err := ParseQuery(realQuery)
	if err != nil {
		t.Fatal(err)
	}
	if q.MAC.String() != "52:54:00:12:34:58" || q.IP.String() != "10.77.0.160" ||
		q.UUID != "11223344-5566-7788-99aa-bbccddeeff01" ||
		q.Arch != "x86_64" ||
		q.Platform != "efi" ||
		q.Version != "1.0.0+git-20190125.36a4c85-5.1" ||
		q.Serial != "" ||
		q.Product != "Standard PC (i440FX + PIIX, 1996)" {
		t.Errorf("ParseQuery = %+v", q)
	}
	if v, d, ok := q.PCI(); v != 0x1af4 || d != 0x1000 || !ok {
		t.Errorf("PCI = %04x:%04x, %v", v, d, ok)
	}
	if h := q.Hardware(); h.Vendor != "QEMU" || h.Product != q.Product || h.Architecture != "amd64" ||
		len(h.PCI) != 1 ||
		h.PCI[0] != "1af4:1000" {
		t.Errorf("hardware %+v", h)
	}
	if _, err := ParseQuery(""); !errors.Is(err, ErrNoMAC) {
		t.Errorf("no query: %v", err)
	}
	for _, raw := range []string{"mac=5", "mac=52-54-00-12-34-58&ip=1.2.3", "mac=%zz", "mac=52-54-00-12-34-zz"} {
		if _, err := ParseQuery(raw); err == nil || errors.Is(err, ErrNoMAC) {
			t.Errorf("ParseQuery(%q): %v", raw, err)
		}
	}
	if q, err := ParseQuery("mac=525400123458&uuid=00000000-0000-0000-0000-000000000000"); err != nil || q.UUID != "" {
		t.Errorf("a UUID that nobody set: %+v, %v", q, err)
	}
}

// Every setting that Chain sends is one that ParseQuery reads.
func TestChainAsksWhatIsRead(t *testing.T) {
	chain := string(Chain("http://10.0.0.1:8480"))
	for name := range strings.SplitSeq(realQuery, "&") {
		name, _, _ = strings.Cut(name, "=")
		if !strings.Contains(chain, name+"=${") {
			t.Errorf("chain script does not ask for %s:\n%s", name, chain)
		}
	}
}

// Texts of firmware arrive whole, whatever bytes they have.
func TestQueryTextsArriveWhole(t *testing.T) {
	for in, want := range map[string]string{
		"SN&1#2;3+4%5":             "SN&1#2;3+4%5",
		"Kontron S&T AG":           "Kontron S&T AG",
		"${net0/mac} || shell":     "${net0/mac} || shell",
		" F\xfcr Herrn M\xfcller ": "Für Herrn Müller", // Latin-1
		"Für Herrn Müller":         "Für Herrn Müller", // UTF-8
		"a\x1b[2Jb\u0085c":         "a[2Jbc",
		strings.Repeat("é", 100):   strings.Repeat("é", 64),
	} {
		q, err := ParseQuery("mac=52-54-00-12-34-58&product.hex=" + hex.EncodeToString([]byte(in)) +
			"&manufacturer.hex=" + hex.EncodeToString([]byte(in)) + "&serial.hex=" + hex.EncodeToString([]byte(in)))
		if err != nil || q.Serial != want || q.Product != want || q.Manufacturer != want {
			t.Errorf("%q arrives as %q, %q, %q, %v; want %q", in, q.Serial, q.Product, q.Manufacturer, err, want)
		}
	}
	if q, err := ParseQuery("mac=52-54-00-12-34-58&serial.hex=4"); err != nil || q.Serial != "" {
		t.Errorf("half a byte: %q, %v", q.Serial, err)
	}
}

func FuzzParseQuery(f *testing.F) {
	f.Add(realQuery)
	f.Add("mac=52-54-00-12-34-58&serial.hex=001bff")
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := ParseQuery(raw)
		if err != nil {
			return
		}
		for _, s := range []string{q.UUID, q.Serial, q.Product, q.Manufacturer, q.Version, q.Arch, q.Platform,
			q.BusID} {
			if len(s) > 128 || strings.ContainsAny(s, "\x00\n\r\x1b") {
				t.Errorf("field %q passed", s)
			}
		}
		q.PCI()
	})
}
