// Package lease renews the node's DHCP lease while the node runs.
//
// It owns when to ask, and whom. The wiring of package node runs it beside the agent. It must not take the node's
// address away, whatever a DHCP server says: the root depends on it.
package lease
