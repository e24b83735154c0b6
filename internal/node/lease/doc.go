// Package lease renews the node's DHCP lease while the node runs.
//
// It owns the time of the next request, and which server it goes to. The wiring of package node runs it beside the
// agent. It must not remove the node's address, whatever a DHCP server replies: the root depends on it.
package lease
