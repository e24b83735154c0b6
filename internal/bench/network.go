package bench

import "net/netip"

// Network is the network of a storm: the address of the server, and room for 65,000 nodes.
var Network = netip.MustParsePrefix("10.79.0.1/16")
