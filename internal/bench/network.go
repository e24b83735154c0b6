package bench

import "net/netip"

// Network is the network of a storm: the server's address, and 65,000 addresses for nodes.
var Network = netip.MustParsePrefix("10.79.0.1/16")
