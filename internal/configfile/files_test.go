package configfile

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files again")

func TestFiles(t *testing.T) {
	full := Input{
		Node:      "pc001",
		Domain:    "lab.example",
		Address:   netip.MustParseAddr("10.0.0.7"),
		MachineID: "0123456789abcdef0123456789abcdef",
		HostKey: []byte(
			"private\n",
		),
		HostKeyPublic:  []byte("public\n"),
		AuthorizedKeys: []string{"ssh-ed25519 AAAA a", "ssh-ed25519 BBBB b"},
		DNS: []netip.Addr{
			netip.MustParseAddr("10.0.0.1"),
			netip.MustParseAddr("10.0.0.2"),
			netip.MustParseAddr("10.0.0.3"),
			netip.MustParseAddr("10.0.0.4"),
		},
	}
	for name, in := range map[string]Input{
		"full": full,
		"bare": {Node: "pc001", MachineID: "0123456789abcdef0123456789abcdef"},
		"fqdn": {Node: "n1.rack2.example", Search: []string{"a", "b"}, DNS: full.DNS[:1]},
	} {
		var b strings.Builder
		for _, f := range Files(in) {
			fmt.Fprintf(&b, "== %s %o\n%s", f.Path, f.Mode, f.Data)
		}
		path := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || b.String() != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s%v", name, b.String(), want, err)
		}
	}
}
