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

// gigabit is 1 Gb/s in bytes a second: the assumed rate of a link whose rate is unknown.
const gigabit = 1e9 / 8

// sysNet is where Linux describes network interfaces.
const sysNet = "/sys/class/net"

// links returns the rate of the server's link, and the rate to assume for nodes that have not reported theirs.
func (c Config) links() netboot.Links {
	return netboot.Links{Server: cmp.Or(c.uplink(), gigabit), Node: cmp.Or(c.nodeLink, gigabit)}
}

// uplink returns the configured rate of the server's link, or the rate that its interfaces report; 0 if unknown.
func (c Config) uplink() int64 {
	if c.Uplink != 0 {
		return c.Uplink
	}
	return interfaceRate(sysNet, c.DHCP.Interfaces)
}

// interfaceRate returns the sum of the rates of the named interfaces, in bytes a second. Without names it returns the
// rate of the fastest interface. It returns 0 if the rate is unknown, as for most virtual interfaces or without a
// cable.
func interfaceRate(dir string, names []string) int64 {
	var sum int64
	for _, name := range names {
		sum += speed(dir, name)
	}
	if len(names) > 0 {
		return sum
	}
	all, _ := net.Interfaces() // on an error the rate is unknown
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 {
			sum = max(sum, speed(dir, i.Name))
		}
	}
	return sum
}

// speed returns an interface's rate in bytes a second, 0 if unknown. The kernel reports Mb/s in sysfs; if the driver
// does not know the speed, the kernel reports -1 or an error.
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
