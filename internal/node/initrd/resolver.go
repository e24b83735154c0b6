package initrd

import (
	"fmt"
	"slices"
	"strings"

	"pando/internal/fleet"
	"pando/internal/link"
	"pando/internal/rootdir"
)

const resolverPath = "/etc/resolv.conf"

// withResolver adds a resolv.conf(5) with the lease's resolvers, unless the server sent one. If a site has its own
// DHCP server, Pando's server does not know the resolvers.
func withResolver(files []fleet.File, l link.Lease) []fleet.File {
	sent := slices.ContainsFunc(files, func(f fleet.File) bool { return f.Path == resolverPath })
	if sent || len(l.DNS) == 0 {
		return files
	}
	var b strings.Builder
	if domainName(l.Domain) {
		fmt.Fprintf(&b, "search %s\n", l.Domain)
	}
	for _, a := range l.DNS[:min(3, len(l.DNS))] { // the C library reads three
		fmt.Fprintf(&b, "nameserver %s\n", a)
	}
	return append(slices.Clip(files), rootdir.Text(resolverPath, b.String()))
}

// domainName reports whether a domain from a DHCP server is safe to write to a file.
func domainName(s string) bool {
	return s != "" && len(s) < 256 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.'
	})
}
