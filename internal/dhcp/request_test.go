package dhcp

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
)

func TestParseRefuses(t *testing.T) {
	good, err := os.ReadFile("testdata/packets/ovmf-pxe-discover.bin")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		edit func([]byte) []byte
	}{
		{"empty", func([]byte) []byte { return nil }},
		{"cut in the header", func(b []byte) []byte { return b[:200] }},
		{"cut in an option", func(b []byte) []byte { return b[:245] }},
		{"reply", func(b []byte) []byte { b[0] = 2; return b }},
		{"token ring", func(b []byte) []byte { b[1] = 6; return b }},
		{"long address", func(b []byte) []byte { b[2] = 16; return b }},
		{"no address", func(b []byte) []byte { clear(b[28:34]); return b }},
		{"group address", func(b []byte) []byte { b[28] |= 1; return b }},
		{"no cookie", func(b []byte) []byte { b[236] = 0; return b }},
		{"no message type", func(b []byte) []byte { return b[:240] }},
		{"a server's message", func(b []byte) []byte { b[242] = byte(dhcpv4.MessageTypeOffer); return b }},
	}
	if _, err := Parse(good); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		b := append([]byte(nil), good...)
		if r, err := Parse(tt.edit(b)); err == nil {
			t.Errorf("%s: parsed as %+v", tt.name, r)
		} else if tt.name == "reply" && !errors.Is(err, errNotForUs) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Whatever packet arrives, an answer can be encoded, goes back to its sender, and gives no address that belongs to
// another client.
func FuzzAnswer(f *testing.F) {
	files, _ := filepath.Glob("testdata/packets/*.bin")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, byte(0))
		f.Add(b, byte(7))
	}
	f.Fuzz(func(t *testing.T, b []byte, how byte) {
		r, err := Parse(b)
		if err != nil {
			return
		}
		v := testView()
		v.Menu, v.BootPort = how&2 != 0, how&4 != 0
		if how&1 != 0 {
			v.Mode = Proxy
			if how&8 != 0 {
				v.StoppedFor = ip4("10.77.0.2")
			}
		}
		if how&16 != 0 {
			v.Holder = fleet.Lease{Addr: r.Requested, MAC: bob, Static: true}
		}
		v.Offer = ip4("10.77.0.150")
		out := Answer(r, v, noon)
		if out.Packet == nil {
			return
		}
		p, err := dhcpv4.FromBytes(out.Packet.ToBytes())
		if err != nil {
			t.Fatalf("unreadable answer: %v", err)
		}
		if p.TransactionID != r.packet.TransactionID || fleet.MAC(p.ClientHWAddr) != r.MAC ||
			p.OpCode != dhcpv4.OpcodeBootReply {
			t.Errorf("answer to somebody else: %s", p.Summary())
		}
		if a := addr(p.YourIPAddr); a.IsValid() &&
			(v.Mode != Own && !v.StoppedFor.IsValid() || !v.Subnet.Usable(a) || a == v.Server ||
				a == v.Holder.Addr && v.Holder.MAC != r.MAC) {
			t.Errorf("gives %s: %s", a, p.Summary())
		}
	})
}
