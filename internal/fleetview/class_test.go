package fleetview

import (
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"strings"
	"testing"
)

func TestClassOf(t *testing.T) {
	for want, h := range map[string]fleet.Hardware{
		"":                             {},
		"qemu":                         {Vendor: "QEMU"},
		"dell-inc-optiplex-7010":       {Vendor: "Dell Inc.", Product: "OptiPlex 7010 "},
		"a":                            {Product: "ÄÖa"},
		strings.Repeat("x", 63):        {Vendor: strings.Repeat("X", 100)},
		strings.Repeat("y-", 31) + "y": {Vendor: strings.Repeat("y ", 50)},
	} {
		got := HardwareClass(h)
		if got != want {
			t.Errorf("%+v is %q, want %q", h, got, want)
		}
		p := bootpack.Map{
			Version: image.Version(nil),
			Class:   got,
			Pieces:  []chunk.Entry{{RawSize: 4096, StoredSize: 9, Codec: chunk.Zstd, ID: chunk.Sum(nil)}},
			Extents: []bootpack.Extent{{Blocks: 1}},
		}
		if _, err := p.Encode(); err != nil {
			t.Error(err)
		}
	}
}
