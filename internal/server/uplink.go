package server

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"pando/internal/netboot"
)

// gigabit is 1 Gb/s in bytes a second: what a link is taken for of which nothing is known.
const gigabit = 1e9 / 8

// sysNet is where Linux tells of network interfaces.
const sysNet = "/sys/class/net"

// links are the rate of the server's link, and what nodes' links are taken for until nodes have told.
func (c Config) links() netboot.Links {
	return netboot.Links{Server: cmp.Or(c.uplink(), gigabit), Node: cmp.Or(c.nodeLink, gigabit)}
}

// uplink is the rate of the server's link that was set, or that its interfaces have; 0: it is not known.
func (c Config) uplink() int64 {
	if c.Uplink != 0 {
		return c.Uplink
	}
	return interfaceRate(sysNet, c.DHCP.Interfaces)
}

// interfaceRate is what some interfaces send together, in bytes a second; if none are named, the fastest of all. 0: not
// known, as with most virtual ones, or where there is no cable.
func interfaceRate(dir string, names []string) int64 {
	var sum int64
	for _, name := range names {
		sum += speed(dir, name)
	}
	if len(names) > 0 {
		return sum
	}
	all, _ := net.Interfaces() // what cannot be listed is not known
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 {
			sum = max(sum, speed(dir, i.Name))
		}
	}
	return sum
}

// speed reads an interface's speed, which the kernel tells in Mb/s; -1 or an error where the driver does not know.
func speed(dir, name string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, filepath.Base(name), "speed"))
	if err != nil {
		return 0
	}
	mbit, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 32)
	if err != nil || mbit < 0 {
		return 0
	}
	return mbit * 1e6 / 8
}
