package netboot

import (
	"testing"
)

// allFeatures is what the iPXE of Debian 12 sends in a BIOS machine, as captured, with bus id and version.
var allFeatures = []byte{
	0xb1,
	5,
	1,
	0x1a,
	0xf4,
	0x10,
	0,
	0xeb,
	3,
	1,
	0,
	0,
	0x17,
	1,
	1,
	0x22,
	1,
	1,
	0x13,
	1,
	1,
	0x11,
	1,
	1,
	0x18,
	1,
	1,
	255,
}

func TestIdentify(t *testing.T) {
	tests := []struct {
		name string
		in   Fields
		kind Kind
		arch Arch
		ok   bool // sufficient
	}{
		{
			"BIOS firmware",
			Fields{VendorClass: "PXEClient:Arch:00000:UNDI:002001", Archs: []uint16{0}},
			PXE,
			BIOS,
			false,
		},
		{
			"UEFI firmware",
			Fields{VendorClass: "PXEClient:Arch:00007:UNDI:003001", Archs: []uint16{7}},
			PXE,
			EFIX64,
			false,
		},
		{
			"UEFI firmware that names it in its class only",
			Fields{VendorClass: "PXEClient:Arch:00007:UNDI:003016"},
			PXE,
			EFIX64,
			false,
		},
		{"HTTP Boot, the same", Fields{VendorClass: "HTTPClient:Arch:00019"}, HTTPBoot, HTTPARM64, false},
		{"a class that means nothing", Fields{VendorClass: "PXEClient:Arch:99999:"}, PXE, BIOS, false},
		{
			"UEFI firmware that says byte code",
			Fields{VendorClass: "PXEClient", Archs: []uint16{9}},
			PXE,
			EFIX64EBC,
			false,
		},
		{
			"HTTP Boot",
			Fields{VendorClass: "HTTPClient:Arch:00016:UNDI:003001", Archs: []uint16{16}},
			HTTPBoot,
			HTTPX64,
			false,
		},
		{
			"iPXE",
			Fields{
				VendorClass: "PXEClient:Arch:00000",
				UserClass:   []byte("iPXE"),
				Archs:       []uint16{0},
				IPXE:        allFeatures,
			},
			IPXE,
			BIOS,
			true,
		},
		{"iPXE, class with lengths", Fields{UserClass: []byte("\x04iPXE"), IPXE: allFeatures}, IPXE, BIOS, true},
		{
			"iPXE, class changed",
			Fields{VendorClass: "PXEClient", UserClass: []byte("lab"), IPXE: allFeatures},
			IPXE,
			BIOS,
			true,
		},
		{
			"iPXE for UEFI without the EFI image format",
			Fields{UserClass: []byte("iPXE"), Archs: []uint16{7}, IPXE: allFeatures},
			IPXE,
			EFIX64,
			false,
		},
		{"iPXE without HTTP", Fields{UserClass: []byte("iPXE"), IPXE: []byte{0x18, 1, 1}}, IPXE, BIOS, false},
		{
			"gPXE",
			Fields{VendorClass: "PXEClient", UserClass: []byte("gPXE"), IPXE: []byte{0x18, 1, 1}},
			IPXE,
			BIOS,
			false,
		},
		{"/init", Fields{VendorClass: "pando-init"}, Init, BIOS, false},
		{"/init on firmware's words", Fields{VendorClass: "pando-init 1.0", Archs: []uint16{7}}, Init, EFIX64, false},
		{"operating system", Fields{VendorClass: "MSFT 5.0"}, Other, BIOS, false},
		{"nothing at all", Fields{}, Other, BIOS, false},
		{
			"several architectures, unknown first",
			Fields{VendorClass: "PXEClient", Archs: []uint16{4711, 11}},
			PXE,
			EFIARM64,
			false,
		},
		{"only an unknown one", Fields{VendorClass: "PXEClient", Archs: []uint16{4711}}, PXE, 4711, false},
	}
	for _, tt := range tests {
		got := Identify(tt.in)
		if got.Kind != tt.kind || got.Arch != tt.arch || got.Kind == IPXE && got.Sufficient() != tt.ok {
			t.Errorf(
				"%s: Identify = %+v sufficient=%v, want kind %s, arch %d, sufficient %v",
				tt.name,
				got,
				got.Sufficient(),
				tt.kind,
				tt.arch,
				tt.ok,
			)
		}
	}
}

func TestIdentifyReadsIPXE(t *testing.T) {
	c := Identify(Fields{UserClass: []byte("iPXE"), IPXE: allFeatures})
	if c.BusID != "01:1a:f4:10:00" || c.Version != "1.0.0" || !c.Features.Has(FeatureHTTP) ||
		c.Features.Has(FeatureEFI) {
		t.Errorf("Identify = %+v", c)
	}
}

func TestMachineUUID(t *testing.T) {
	wire := []byte{0, 0x44, 0x33, 0x22, 0x11, 0x66, 0x55, 0x88, 0x77, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0}
	tests := []struct {
		in   []byte
		want string
	}{
		{wire, "11223344-5566-7788-99aa-bbccddeeff00"},
		{wire[:16], ""},
		{append([]byte{1}, wire[1:]...), ""},
		{make([]byte, 17), ""},
		{nil, ""},
	}
	for _, tt := range tests {
		if got := machineUUID(tt.in); got != tt.want {
			t.Errorf("machineUUID(%x) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzIdentify(f *testing.F) {
	f.Add("PXEClient:Arch:00007", []byte("iPXE"), uint16(7), []byte{0}, allFeatures)
	f.Add("", []byte{4, 'i'}, uint16(65535), make([]byte, 17), []byte{0xb1, 200, 1})
	f.Fuzz(func(t *testing.T, vendor string, class []byte, arch uint16, id, ipxe []byte) {
		c := Identify(Fields{VendorClass: vendor, UserClass: class, Archs: []uint16{arch}, MachineID: id, IPXE: ipxe})
		file, err := BootFile(c, Loaders{ClassBIOS: "undionly.kpxe", ClassX64: "snponly.efi"}, "http://10.0.0.1:8480")
		if c.Boots() == (file == "" && err == nil) {
			t.Errorf("client %+v: boot file %q, error %v", c, file, err)
		}
		if len(c.Features) > len(ipxe) || len(c.BusID) > 48 || len(c.UUID) > 36 {
			t.Errorf("client grew: %+v", c)
		}
	})
}
