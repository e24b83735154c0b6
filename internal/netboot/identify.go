package netboot

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is the kind of program that sends a request.
type Kind string

// The kinds of clients.
const (
	PXE      Kind = "pxe"        // a firmware's own PXE: wants a boot file by TFTP
	HTTPBoot Kind = "http"       // UEFI HTTP Boot: wants a URL
	IPXE     Kind = "ipxe"       // iPXE, in a ROM or started by Pando
	Init     Kind = "pando-init" // the DHCP client of a node's /init: wants an address and nothing else
	Other    Kind = "other"      // an operating system, a printer, ...
)

// InitClass is the vendor class that the node's /init sends.
const InitClass = "pando-init"

// Fields are the parts of a DHCP message that identify the client. They have the same meaning in DHCPv4 and DHCPv6;
// numbers in the comments are DHCPv4 options.
type Fields struct {
	VendorClass string   // 60
	UserClass   []byte   // 77, raw: iPXE sends a bare string, RFC 3004 wants length-prefixed ones
	Archs       []uint16 // 93, in the client's order of preference
	MachineID   []byte   // 97: a type byte, then 16 bytes as SMBIOS has them
	IPXE        []byte   // 175: iPXE's own options, encapsulated
}

// Client is the sender of a request, as far as the packet identifies it.
type Client struct {
	Kind     Kind     `json:"kind"`
	Arch     Arch     `json:"arch"` // 0 also when the client named none
	UUID     string   `json:"uuid,omitempty"`
	Features Features `json:"features,omitempty"` // iPXE only
	Version  string   `json:"version,omitempty"`  // iPXE only; Debian's builds report 1.0.0 in all releases
	BusID    string   `json:"bus_id,omitempty"`   // iPXE only: bus type, vendor, device, "01:10:ec:81:39"
}

// Boots reports whether the client is firmware or a boot loader, so that its packet belongs to a boot.
func (c Client) Boots() bool { return c.Kind == PXE || c.Kind == HTTPBoot || c.Kind == IPXE }

// Identify returns the client that sent a packet with these fields. It never fails: it leaves out what it cannot
// read.
func Identify(f Fields) Client {
	c := Client{Kind: kind(f), UUID: machineUUID(f.MachineID)}
	for i, a := range f.architectures() {
		if _, known := Arch(a).Class(); known || i == 0 {
			c.Arch = Arch(a)
			if known {
				break
			}
		}
	}
	if c.Kind == IPXE {
		readIPXE(&c, f.IPXE)
	}
	return c
}

// architectures returns those of option 93. Firmware that leaves the option out still names one in its vendor class,
// as "PXEClient:Arch:00007:UNDI:003016" (PXE 2.1 table 2-1).
func (f Fields) architectures() []uint16 {
	_, after, named := strings.Cut(f.VendorClass, "Client:Arch:")
	if len(f.Archs) > 0 || !named {
		return f.Archs
	}
	number, _, _ := strings.Cut(after, ":")
	if a, err := strconv.ParseUint(number, 10, 16); err == nil {
		return []uint16{uint16(a)}
	}
	return nil
}

func kind(f Fields) Kind {
	switch {
	case strings.HasPrefix(f.VendorClass, InitClass):
		return Init
	case isIPXE(f):
		return IPXE
	case strings.HasPrefix(f.VendorClass, "HTTPClient"):
		return HTTPBoot
	case strings.HasPrefix(f.VendorClass, "PXEClient"):
		return PXE
	}
	return Other
}

// isIPXE accepts the user class in both its forms. If somebody changed the user class, iPXE's encapsulated options
// identify it. gPXE, iPXE's ancestor, sends the same options, and its user class does not matter.
func isIPXE(f Fields) bool {
	class := strings.TrimRight(string(f.UserClass), "\x00")
	if class == "iPXE" || len(f.UserClass) == 5 && f.UserClass[0] == 4 && string(f.UserClass[1:]) == "iPXE" {
		return true
	}
	return len(f.IPXE) > 0
}

// Features are the option numbers of the features that an iPXE reports.
type Features []byte

// The features that matter, numbered as in option 175 (iPXE: src/include/ipxe/features.h).
const (
	FeatureHTTP    = 0x13
	FeatureBzImage = 0x18
	FeatureEFI     = 0x24
)

// Has reports whether the feature is there.
func (fs Features) Has(f byte) bool { return slices.Contains(fs, f) }

// Sufficient reports whether this iPXE can run Pando's script: fetch by HTTP, and start a Linux kernel the way its
// platform does. Other iPXE clients get the site's own build.
func (c Client) Sufficient() bool {
	image := byte(FeatureEFI)
	if c.Arch == BIOS {
		image = FeatureBzImage
	}
	return c.Features.Has(FeatureHTTP) && c.Features.Has(image)
}

// Numbers inside option 175 (iPXE: src/include/ipxe/dhcp.h).
const (
	ipxeFeaturesFrom = 0x10
	ipxeFeaturesTo   = 0x7f
	ipxeBusID        = 0xb1
	ipxeVersion      = 0xeb
)

func readIPXE(c *Client, b []byte) {
	for len(b) >= 2 && b[0] != 255 {
		if b[0] == 0 {
			b = b[1:]
			continue
		}
		tag, n := b[0], int(b[1])
		if len(b) < 2+n {
			return
		}
		v := b[2 : 2+n]
		b = b[2+n:]
		switch {
		case tag == ipxeBusID && n <= 16:
			c.BusID = colons(v)
		case tag == ipxeVersion && n == 3:
			c.Version = fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2])
		case tag >= ipxeFeaturesFrom && tag <= ipxeFeaturesTo && n == 1 && v[0] != 0:
			c.Features = append(c.Features, tag)
		}
	}
}

func colons(b []byte) string {
	parts := make([]string, len(b))
	for i := range b {
		parts[i] = hex.EncodeToString(b[i : i+1])
	}
	return strings.Join(parts, ":")
}

// machineUUID is the usual spelling of option 97. Firmware sends SMBIOS order: the first three groups little-endian.
func machineUUID(b []byte) string {
	if len(b) != 17 || b[0] != 0 {
		return ""
	}
	u := b[1:]
	if slices.Max(u) == 0 || slices.Min(u) == 0xff {
		return "" // not set by the vendor
	}
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", binary.LittleEndian.Uint32(u), binary.LittleEndian.Uint16(u[4:]),
		binary.LittleEndian.Uint16(u[6:]), u[8:10], u[10:])
}
