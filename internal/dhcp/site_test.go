package dhcp

import (
	"os"
	"strings"
	"testing"
)

// The dnsmasq lines in docs/netboot.md, for a site that keeps all of DHCP to itself, send the same boot files as Pando.
func TestDocumentedDnsmasqLines(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/netboot.md")
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for l := range strings.Lines(string(page)) {
		if s, ok := strings.CutPrefix(strings.TrimRight(l, "\n"), "    dhcp-"); ok {
			args = append(args, "--dhcp-"+strings.ReplaceAll(s, "10.0.0.1", "10.77.0.1"))
		}
	}
	if len(args) < 5 {
		t.Fatalf("only %d lines found in docs/netboot.md", len(args))
	}
	net := newNetns(t, "10.77.0.1/24")
	site(net, args...)
	c := net.client(bobMAC)
	for packet, file := range map[string]string{
		"ovmf-pxe-discover": "snponly.efi",
		"undionly-discover": "http://10.77.0.1:8480/boot/script",
	} {
		got := replayed(c, packet, "")
		if len(got) != 1 || got[0].File != file || got[0].Server != ip4("10.77.0.2") {
			t.Errorf("%s: %+v, want %s", packet, got, file)
		}
	}
}
