package fleet

import (
	"encoding/hex"
	"fmt"
	"net"
	"strings"
)

// MAC is a 48-bit Ethernet address, the identity firmware shows before anything else is known of a node.
type MAC [6]byte

// ParseMAC parses a MAC in any usual spelling: six bytes with colons, dashes, dots or blanks between, of one digit too
// (ethers(5)); groups of four or six digits as switches of Cisco, H3C and HP have them; bare hex; and PXELINUX's BOOTIF
// form and ISC's client identifiers, which have the ARP hardware type "01" in front.
func ParseMAC(s string) (MAC, error) {
	var m MAC
	t := strings.ToLower(strings.TrimSpace(s))
	if len(t) == len("01-aa-bb-cc-dd-ee-ff") && strings.HasPrefix(t, "01") {
		t = t[3:]
	}
	groups := []string{t}
	if i := strings.IndexAny(t, ":-. "); i >= 0 {
		groups = strings.Split(t, t[i:i+1])
	}
	digits := 12 / len(groups)
	for i, g := range groups {
		if len(groups) == 6 && len(g) == 1 && strings.Contains(t, ":") {
			g = "0" + g
		}
		if len(g) != digits || digits*len(groups) != 12 || digits%2 != 0 {
			return m, fmt.Errorf("MAC address %q is not six bytes such as 52:54:00:12:34:56", s)
		}
		if _, err := hex.Decode(m[i*digits/2:], []byte(g)); err != nil {
			return m, fmt.Errorf("MAC address %q is not hexadecimal", s)
		}
	}
	return m, nil
}

// String is the lower-case colon form, the one used in the registry, in the CLI and in events.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// BootIF is the form of the BOOTIF kernel argument, "01-52-54-00-12-34-56".
func (m MAC) BootIF() string { return "01-" + strings.ReplaceAll(m.String(), ":", "-") }

// IsZero reports whether m was never set.
func (m MAC) IsZero() bool { return m == MAC{} }

// OfOne reports whether m can be the address of one machine: it is neither zero nor multicast.
func (m MAC) OfOne() bool { return !m.IsZero() && m[0]&1 == 0 }

// MarshalText makes a MAC a JSON string.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is the inverse of MarshalText; it takes every spelling that ParseMAC takes.
func (m *MAC) UnmarshalText(b []byte) error {
	p, err := ParseMAC(string(b))
	if err == nil {
		*m = p
	}
	return err
}
