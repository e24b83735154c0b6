package hostcheck

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"pando/internal/api"
	"pando/internal/dhcp"
)

func portName(p api.Port) string { return fmt.Sprintf("%d/%s", p.Number, p.Net) }

// usualPorts returns the ports of a server without flags.
func usualPorts() []api.Port {
	return []api.Port{
		{Net: "udp", Number: dhcp.ServerPort, Use: "DHCP"}, {Net: "udp", Number: 69, Use: "TFTP"},
		{Net: "udp", Number: dhcp.BootPort, Use: "proxyDHCP"},
		{Net: "tcp", Number: 8480, Use: "boot files and images"}, {Net: "tcp", Number: 8443, Use: "control port"},
	}
}

// portsOf returns the ports to check.
func portsOf(own api.Status, o Options) []api.Port {
	switch {
	case o.Ports != nil:
		return o.Ports
	case len(own.Ports) > 0:
		return own.Ports
	}
	return usualPorts()
}

// checkPorts finds programs that use a port that the server needs. A running Pando is no finding.
func checkPorts(proc string, ports []api.Port) []Finding {
	var out []Finding
	var free []string
	ours := 0
	for _, p := range ports {
		free = append(free, portName(p))
		inodes, err := socketsOn(proc, p)
		if err != nil {
			out = append(out, found(note, "", "cannot see who holds port %d/%s: %v", p.Number, p.Net, err)...)
			continue
		}
		for _, owner := range owners(proc, inodes) {
			if owner.name == "pando" {
				ours++
				continue
			}
			fix := fmt.Sprintf("stop it, or run Pando on another machine (`ss -lnp sport = :%d` shows more)", p.Number)
			if owner.pid > 0 {
				fix = fmt.Sprintf(
					"stop it (`systemctl status %d` names its service), or run Pando on another machine",
					owner.pid,
				)
			}
			out = append(out, found(Problem, fix, "port %d/%s (%s) is taken by %s", p.Number, p.Net, p.Use, owner)...)
		}
	}
	switch {
	case len(out) > 0:
		return out
	case ours > 0:
		return found(Fine, "", "a Pando server runs and holds its ports")
	}
	return found(Fine, "", "%s are free", strings.Join(free, ", "))
}

// owner is a process that has a socket open; pid 0: the process could not be found, it is another user's.
type owner struct {
	pid  int
	name string
}

func (o owner) String() string {
	if o.pid == 0 {
		return "a process of another user"
	}
	return fmt.Sprintf("%s (pid %d)", o.name, o.pid)
}

// socketsOn returns the inodes of the sockets bound to a port, of both address families.
func socketsOn(proc string, p api.Port) ([]string, error) {
	var inodes []string
	for _, family := range []string{"", "6"} {
		f, err := os.Open(filepath.Join(proc, "net", p.Net+family))
		if os.IsNotExist(err) && family == "6" {
			continue
		}
		if err != nil {
			return nil, err
		}
		found, err := parseSockets(f, p)
		f.Close()
		if err != nil {
			return nil, err
		}
		inodes = append(inodes, found...)
	}
	return inodes, nil
}

// tcpListen is the state of a listening socket in /proc/net/tcp. Connections do not keep a server from using a port.
const tcpListen = "0A"

// parseSockets parses /proc/net/udp or tcp: "sl local_address rem_address st ... uid timeout inode", where an address
// is hex IP, a colon and hex port.
func parseSockets(r io.Reader, p api.Port) ([]string, error) {
	var inodes []string
	s := bufio.NewScanner(r)
	for first := true; s.Scan(); first = false {
		f := strings.Fields(s.Text())
		if first || len(f) < 10 {
			continue
		}
		_, number, _ := strings.Cut(f[1], ":")
		b, err := hex.DecodeString(number)
		if err != nil || len(b) != 2 || uint16(b[0])<<8|uint16(b[1]) != p.Number {
			continue
		}
		if p.Net == "tcp" && f[3] != tcpListen {
			continue
		}
		inodes = append(inodes, f[9])
	}
	return inodes, s.Err()
}

// owners returns the processes that have one of the sockets open, each once.
func owners(proc string, inodes []string) []owner {
	if len(inodes) == 0 {
		return nil
	}
	var out []owner
	fds, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*")) // the pattern is a constant: no error
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if err != nil || !slices.Contains(inodes, strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")) {
			continue // the process is gone or another user's, or it is another file
		}
		dir := filepath.Dir(filepath.Dir(fd))
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || slices.ContainsFunc(out, func(o owner) bool { return o.pid == pid }) {
			continue
		}
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err == nil {
			out = append(out, owner{pid, strings.TrimSpace(string(name))})
		}
	}
	if len(out) == 0 {
		return []owner{{}}
	}
	return out
}
