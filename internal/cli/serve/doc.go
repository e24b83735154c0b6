// Package serve has the commands `serve` and `up`, which run the server on this machine.
//
// It turns flags into the server's configuration, looks for other DHCP servers, and asks before it gives addresses. At
// the first start it builds an image. The package cli adds the commands to the tree. It must never open a port itself.
package serve
