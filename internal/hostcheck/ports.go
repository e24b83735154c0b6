package hostcheck

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// port is a port that the server needs.
type port struct {
	net    string // "udp" or "tcp"
	number uint16
	use    string
}

var serverPorts = [...]port{
	{"udp", 67, "DHCP"}, {"udp", 69, "TFTP"}, {"udp", 4011, "proxyDHCP"},
	{"tcp", 8480, "boot files and images"}, {"tcp", 8443, "control port"},
}

// checkPorts finds programs that use a port that the server needs. A running Pando is no finding.
func checkPorts(_ context.Context, o Options) []Finding {
	var out []Finding
	ours := 0
	for _, p := range serverPorts {
		inodes, err := socketsOn(o.Proc, p)
		if err != nil {
			out = append(out, found(note, "", "cannot see who holds port %d/%s: %v", p.number, p.net, err)...)
			continue
		}
		for _, owner := range owners(o.Proc, inodes) {
			if owner.name == "pando" {
				ours++
				continue
			}
			fix := fmt.Sprintf("stop it, or run Pando on another machine (`ss -lnp sport = :%d` shows more)", p.number)
			if owner.pid > 0 {
				fix = fmt.Sprintf(
					"stop it (`systemctl status %d` names its service), or run Pando on another machine",
					owner.pid,
				)
			}
			out = append(out, found(Problem, fix, "port %d/%s (%s) is taken by %s", p.number, p.net, p.use, owner)...)
		}
	}
	switch {
	case len(out) > 0:
		return out
	case ours > 0:
		return found(Fine, "", "a Pando server runs and holds its ports")
	}
	return found(Fine, "", "67/udp, 69/udp, 4011/udp, 8480/tcp and 8443/tcp are free")
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
func socketsOn(proc string, p port) ([]string, error) {
	var inodes []string
	for _, family := range []string{"", "6"} {
		f, err := os.Open(filepath.Join(proc, "net", p.net+family))
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
func parseSockets(r io.Reader, p port) ([]string, error) {
	var inodes []string
	s := bufio.NewScanner(r)
	for first := true; s.Scan(); first = false {
		f := strings.Fields(s.Text())
		if first || len(f) < 10 {
			continue
		}
		_, number, _ := strings.Cut(f[1], ":")
		b, err := hex.DecodeString(number)
		if err != nil || len(b) != 2 || uint16(b[0])<<8|uint16(b[1]) != p.number {
			continue
		}
		if p.net == "tcp" && f[3] != tcpListen {
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
