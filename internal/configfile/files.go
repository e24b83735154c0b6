package configfile

import (
	"fmt"
	"net/netip"
	"strings"

	"pando/internal/fleet"
)

// Input has everything that the config files of a node depend on.
type Input struct {
	Node           string     // name; may have dots
	Domain         string     // appended to a name without dots; "": none
	Address        netip.Addr // the node's fixed address; zero: it may change
	MachineID      string     // 32 hex digits
	HostKey        []byte     // ssh host key, OpenSSH's file
	HostKeyPublic  []byte     // its public half, one line
	AuthorizedKeys []string   // root's
	DNS            []netip.Addr
	Search         []string
}

// HostKeyPath is the path of a node's ssh host key. It is the only secret among Files.
const HostKeyPath = "/etc/ssh/ssh_host_ed25519_key"

// readHostKey makes the image's sshd read its keys again, under either of its unit names. systemctl accepts a pattern
// that matches no unit, but not a name without a unit.
const readHostKey = "systemctl try-reload-or-restart 'ssh.servic?' 'sshd.servic?'"

// Files renders the config files. /etc/resolv.conf is included only if resolvers are given. Otherwise the node uses
// the resolvers of its DHCP lease.
func Files(in Input) []fleet.File {
	files := []fleet.File{
		text("/etc/hostname", 0o644, in.Node+"\n"),
		text("/etc/hosts", 0o644, hosts(in)),
		text("/etc/machine-id", 0o444, in.MachineID+"\n"),
		{Path: HostKeyPath, Mode: 0o600, Data: in.HostKey, Run: readHostKey},
		{Path: HostKeyPath + ".pub", Mode: 0o644, Data: in.HostKeyPublic},
	}
	if len(in.AuthorizedKeys) > 0 {
		files = append(files, text("/root/.ssh/authorized_keys", 0o600, strings.Join(in.AuthorizedKeys, "\n")+"\n"))
	}
	if len(in.DNS) > 0 {
		files = append(files, text("/etc/resolv.conf", 0o644, resolver(in)))
	}
	return files
}

func text(path string, mode uint32, s string) fleet.File {
	return fleet.File{Path: path, Mode: mode, Data: []byte(s)}
}

// hosts renders /etc/hosts as Debian does: 127.0.1.1 is the node's own address if its address may change.
func hosts(in Input) string {
	own := netip.AddrFrom4([4]byte{127, 0, 1, 1})
	if in.Address.IsValid() {
		own = in.Address
	}
	var b strings.Builder
	b.WriteString("127.0.0.1\tlocalhost\n")
	fmt.Fprintf(&b, "%s\t%s\n", own, strings.Join(names(in), " "))
	b.WriteString("::1\tlocalhost ip6-localhost ip6-loopback\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n")
	return b.String()
}

// names returns the full name, if there is one, and the short one.
func names(in Input) []string {
	first, _, dotted := strings.Cut(in.Node, ".")
	switch {
	case dotted:
		return []string{in.Node, first}
	case in.Domain != "":
		return []string{in.Node + "." + in.Domain, in.Node}
	}
	return []string{in.Node}
}

func resolver(in Input) string {
	var b strings.Builder
	search := in.Search
	if len(search) == 0 && in.Domain != "" {
		search = []string{in.Domain}
	}
	if len(search) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(search, " "))
	}
	for i, a := range in.DNS {
		if i == 3 { // resolv.conf(5): the C library reads three
			break
		}
		fmt.Fprintf(&b, "nameserver %s\n", a)
	}
	return b.String()
}

// short returns a host name up to its first dot.
func short(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}
