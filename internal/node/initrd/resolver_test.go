package initrd

import (
	"net/netip"
	"testing"

	"pando/internal/fleet"
	"pando/internal/link"
	"pando/internal/rootdir"
)

func TestWithResolver(t *testing.T) {
	dns := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}
	sent := []fleet.File{rootdir.Text(resolverPath, "nameserver 1.1.1.1\n")}
	for name, c := range map[string]struct {
		files []fleet.File
		lease link.Lease
		want  string
	}{
		"the server's": {sent, link.Lease{DNS: dns}, "nameserver 1.1.1.1\n"},
		"the lease's": {nil, link.Lease{DNS: dns, Domain: "lab.example"}, "search lab.example\nnameserver " +
			"10.0.0.1\nnameserver 10.0.0.2\n"},
		"a domain that lies": {nil, link.Lease{DNS: dns[:1], Domain: "x\nnameserver 6.6.6.6"}, "nameserver 10.0.0.1\n"},
		"none":               {nil, link.Lease{}, ""},
	} {
		got := ""
		for _, f := range withResolver(c.files, c.lease) {
			got += string(f.Data)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
