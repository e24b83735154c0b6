package netboot

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"pando/internal/fleet"
)

// settings are what iPXE reports about itself when it requests its script: the name in the query, and the iPXE
// setting. Text that vendors write into SMBIOS is sent as hex digits: :uristring does not escape ";", "&", "#" and
// "+".
var settings = [...][2]string{
	{"mac", "${mac:hexhyp}"}, {"ip", "${ip}"}, {"uuid", "${uuid}"}, {"busid", "${busid:hexraw}"},
	{"arch", "${buildarch}"}, {"platform", "${platform}"}, {"version.hex", "${version:hexraw}"},
	{"serial.hex", "${serial:hexraw}"}, {"manufacturer.hex", "${manufacturer:hexraw}"},
	{"product.hex", "${product:hexraw}"}, {digestsSetting, "${" + digestsSetting + "}"},
}

// ErrNoMAC means that a request for a script does not identify the machine. The answer is Chain.
var ErrNoMAC = errors.New("request names no MAC address")

// Query is what iPXE reports about its machine in a request for a script.
type Query struct {
	MAC          fleet.MAC
	IP           netip.Addr
	UUID         string
	BusID        string // hex: bus type (01 is PCI), vendor, device
	Arch         string // of the iPXE build: i386, x86_64, arm64
	Platform     string // pcbios or efi
	Version      string // of iPXE
	Serial       string
	Manufacturer string
	Product      string
	Digests      Ability // whether it verifies SHA-256 digests
}

// Ability is whether a loader has a command. A script tries the command, because versions do not say how a loader was
// built.
type Ability string

// Abilities, as the setting in which a script keeps them.
const (
	Untried Ability = ""
	Lacks   Ability = "0"
	Has     Ability = "1"
)

// ParseQuery parses the raw query of a request for ScriptPath. It returns ErrNoMAC if the query has no MAC.
func ParseQuery(raw string) (Query, error) {
	v, err := url.ParseQuery(raw)
	if err != nil {
		return Query{}, fmt.Errorf("boot script query: %w", err)
	}
	if v.Get("mac") == "" {
		return Query{}, ErrNoMAC
	}
	mac, err := fleet.ParseMAC(v.Get("mac"))
	if err != nil {
		return Query{}, fmt.Errorf("boot script query: %w", err)
	}
	q := Query{MAC: mac, UUID: uuid(v.Get("uuid")), BusID: clip(v.Get("busid")), Arch: clip(v.Get("arch")),
		Platform: clip(v.Get("platform")), Version: smbios(v, "version"), Serial: smbios(v, "serial"),
		Manufacturer: smbios(v, "manufacturer"), Product: smbios(v, "product"),
		Digests: Ability(clip(v.Get(digestsSetting)))}
	if !v.Has(digestsSetting) { // a script of another release, which tries no commands
		q.Digests = Lacks
	}
	if s := v.Get("ip"); s != "" {
		if q.IP, err = netip.ParseAddr(s); err != nil {
			return Query{}, fmt.Errorf("boot script query: address %q is not an IP address", clip(s))
		}
	}
	return q, nil
}

// PCI returns vendor and device of the NIC that iPXE booted from: the numbers of a Linux modalias.
func (q Query) PCI() (vendor, device uint16, ok bool) {
	b, err := hex.DecodeString(strings.ReplaceAll(q.BusID, ":", ""))
	if err != nil || len(b) != 5 || b[0] != 1 {
		return 0, 0, false
	}
	return uint16(b[1])<<8 | uint16(b[2]), uint16(b[3])<<8 | uint16(b[4]), true
}

// Hardware returns what the boot loader knows of the machine. An iPXE for BIOS is a 32-bit program on any x86
// machine.
func (q Query) Hardware() fleet.Hardware {
	h := fleet.Hardware{Vendor: q.Manufacturer, Product: q.Product, Serial: q.Serial, UUID: q.UUID,
		Architecture: map[string]string{"i386": "amd64", "x86_64": "amd64", "arm64": "arm64"}[q.Arch]}
	if vendor, device, ok := q.PCI(); ok {
		h.PCI = []string{fmt.Sprintf("%04x:%04x", vendor, device)}
	}
	return h
}

// uuid returns a UUID in lower case, "" if the vendor did not set one.
func uuid(s string) string {
	s = strings.ToLower(clip(s))
	if strings.Trim(s, "0-") == "" || strings.Trim(s, "f-") == "" {
		return ""
	}
	return s
}

// clip shortens a text that a machine sent, and drops characters that cannot be printed.
func clip(s string) string { return fleet.FirmwareText(s) }

// smbios reads a text that the query has as hex digits.
func smbios(v url.Values, name string) string {
	b, err := hex.DecodeString(v.Get(name + ".hex"))
	if err != nil {
		return ""
	}
	return clip(string(b))
}

// Chain is the script that is the same for every machine: it makes iPXE request its own script and send its identity.
// TFTP serves it as autoexec.ipxe, which new iPXE builds run first. HTTP serves it at ScriptPath without a query, where
// DHCP sends iPXE.
func Chain(base string) []byte {
	var b bytes.Buffer
	b.WriteString("#!ipxe\n")
	writeAsk(&b, base, 5)
	return b.Bytes()
}

// exchange makes iPXE do a DHCP exchange, on the NIC it uses if there is one already. Plain "dhcp" also looks for an
// IPv6 router, which can take 16 seconds; it is for builds that do not know configurators.
const exchange = "ifconf --configurator dhcp netX || ifconf --configurator dhcp || dhcp ||\n"

// leaveAfter is how many rounds without an answer make iPXE leave the machine to the boot medium that started it. A
// round takes about ten seconds if only the server's program is gone, and about fifty if DHCP does not answer either
// (iPXE of Debian 12).
const leaveAfter = 4

// How a script knows that a boot medium (package media) started iPXE. Firmware and the loaders that it fetches have
// neither, so machines that they start repeat their requests until a server answers.
const (
	mediumSetting = "medium" // under BIOS: a setting in the command line from GRUB
	// under UEFI: a script on the file system that iPXE was started from
	mediumLeave = "file:/pando/leave.ipx"
)

// writeAsk writes the part of a script that requests the node's own script until it arrives. The new script replaces
// the running one, so scripts do not nest, however long a machine waits.
func writeAsk(b *bytes.Buffer, base string, seconds int) {
	var ask strings.Builder
	fmt.Fprintf(&ask, "chain --replace --autofree %s%s?", base, ScriptPath)
	for i, s := range settings {
		if i > 0 {
			ask.WriteByte('&')
		}
		ask.WriteString(s[0] + "=" + s[1])
	}
	ask.WriteString(" ||\n")
	// A second request follows a DHCP exchange at once: autoexec.ipxe runs before iPXE has opened a NIC, but the
	// firmware has already set ${ip} (seen with iPXE 1.21.1), so only a request shows whether the network works.
	// Later exchanges renew what the server knows about the address, and find a server that moved.
	b.WriteString("set tries:int32 0 ||\n:ask\n" + ask.String() + exchange + ask.String())
	fmt.Fprintf(b, "echo Pando: no answer from %s, asking again in %d seconds\n", base, seconds)
	fmt.Fprintf(b, "sleep %d\ninc tries ||\niseq ${tries} %d || goto ask\n", seconds, leaveAfter)
	// After some rounds iPXE from a boot medium ends with an error, and the medium's GRUB boots what it has. Rounds
	// count from zero in each script: a script that arrived proves that a server answers.
	fmt.Fprintf(b, "isset ${%s} && exit 1 ||\nchain --replace --autofree %s ||\ngoto ask\n", mediumSetting, mediumLeave)
}
