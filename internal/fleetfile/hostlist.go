package fleetfile

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
)

// Host lists of other servers are accepted unchanged: ethers(5), dnsmasq's dhcp-host, and host blocks of ISC's
// dhcpd.conf(5).

var (
	iscHost     = regexp.MustCompile(`(?m)^[^#\n]*\bhost\s+\S+\s*\{`)
	dnsmasqHost = regexp.MustCompile(`(?m)^\s*(dhcp-host\s*=|--dhcp-host[= ])`)
)

// hostList reads the text if it is a host list, and reports whether it is.
func (t *tableReader) hostList(text string) bool {
	switch first := firstLine(text); {
	case iscHost.MatchString(text):
		t.isc(text)
	case dnsmasqHost.MatchString(text):
		t.eachLine(text, func(line int, s string) {
			if key := dnsmasqHost.FindString(s); key != "" {
				t.dnsmasq(line, strings.TrimSpace(s[len(key):]))
			}
		})
	case isMAC(strings.Split(first, ",")[0]) && strings.Contains(first, ","): // dhcp-hostsfile
		t.eachLine(text, t.dnsmasq)
	case first != "" && isMAC(strings.Fields(first)[0]):
		t.eachLine(text, t.ethers)
	default:
		return false
	}
	if len(t.out.Nodes) == 0 && len(t.list) == 0 {
		t.add(0, "", "there is no host with a hardware address in it")
	}
	return true
}

func isMAC(s string) bool {
	_, err := fleet.ParseMAC(s)
	return err == nil
}

// eachLine calls fn with each line that is neither empty nor a comment.
func (t *tableReader) eachLine(text string, fn func(line int, s string)) {
	line := 0
	for s := range strings.Lines(text) {
		line++
		if s, _, _ = strings.Cut(s, "#"); strings.TrimSpace(s) != "" && !t.full() {
			fn(line, strings.TrimSpace(s))
		}
	}
}

func firstLine(text string) string {
	for s := range strings.Lines(text) {
		if s, _, _ = strings.Cut(s, "#"); strings.TrimSpace(s) != "" {
			return strings.TrimSpace(s)
		}
	}
	return ""
}

// ethers reads a line of /etc/ethers: a MAC and a name.
func (t *tableReader) ethers(line int, s string) {
	f := strings.Fields(s)
	if len(f) != 2 {
		t.add(line, "", "want a MAC address and a name, as ethers(5) has them")
		return
	}
	if _, err := netip.ParseAddr(f[1]); err == nil {
		t.add(line, "", "it has the address %s and no name: write the node's name there", f[1])
		return
	}
	t.host(line, f[1], []string{f[0]}, "")
}

// leaseTime matches a lease time of dnsmasq.
var leaseTime = regexp.MustCompile(`^([0-9]+[smhdw]?|infinite)$`)

// dnsmasq reads the value of dhcp-host: MACs, tags, an address, a name and a lease time in any order.
func (t *tableReader) dnsmasq(line int, s string) {
	var name, address string
	var macs []string
	for f := range strings.SplitSeq(s, ",") {
		f = strings.TrimSpace(f)
		_, noAddress := netip.ParseAddr(strings.Trim(f, "[]"))
		switch kind, _, tagged := strings.Cut(f, ":"); {
		case f == "ignore":
			return
		case f == "", f[0] == '[', leaseTime.MatchString(f),
			tagged && slices.Contains([]string{"id", "set", "tag", "net"}, kind):
		case noAddress == nil:
			address = f
		case strings.Contains(f, ":"):
			macs = append(macs, f)
		case isMAC(f):
			macs = append(macs, f)
		default:
			name = f
		}
	}
	if name == "" || len(macs) == 0 {
		t.add(line, "", "the host has no name, or no MAC address: a node has both, as in "+
			"dhcp-host=52:54:00:12:34:56,10.0.0.11,pc001")
		return
	}
	t.host(line, name, macs, address)
}

// isc reads the host blocks of dhcpd.conf and ignores everything else.
func (t *tableReader) isc(text string) {
	words := iscWords(text)
	for i := 0; i+2 < len(words); i++ {
		if words[i].text != "host" || words[i+2].text != "{" {
			continue
		}
		name, line := words[i+1].text, words[i].line
		var macs []string
		address, depth := "", 1
		for i += 3; i < len(words) && depth > 0; i++ {
			next := func(n int) string {
				if i+n < len(words) {
					return words[i+n].text
				}
				return ""
			}
			switch words[i].text {
			case "{":
				depth++
			case "}":
				depth--
			case "hardware":
				macs = append(macs, next(2))
			case "fixed-address":
				if _, err := netip.ParseAddr(next(1)); err == nil { // an address, not a name
					address = next(1)
				}
			case "host-name":
				name = next(1)
			}
		}
		i--
		if len(macs) > 0 {
			t.host(line, name, macs, address)
		}
	}
}

type iscWord struct {
	text string
	line int
}

var iscWordForm = regexp.MustCompile(`#[^\n]*|"[^"\n]*"|[{};,]|[^\s{};,"#]+`)

// iscWords splits dhcpd.conf into words, without comments.
func iscWords(text string) (out []iscWord) {
	line := 0
	for s := range strings.Lines(text) {
		line++
		for _, w := range iscWordForm.FindAllString(s, -1) {
			if w[0] != '#' {
				out = append(out, iscWord{strings.Trim(w, `"`), line})
			}
		}
	}
	return out
}

// host adds one host of a list. A machine with several adapters is listed several times under one name.
func (t *tableReader) host(line int, name string, macs []string, address string) {
	if t.full() {
		return
	}
	d := api.NodeDeclare{Only: []string{"name", "macs"}}
	d.Name = t.lowered(line, name)
	for _, s := range macs {
		m, err := fleet.ParseMAC(s)
		if err != nil {
			t.add(line, "mac", "%v", err)
			return
		}
		d.MACs = append(d.MACs, m)
	}
	if address != "" {
		a, err := parseAddress(address)
		if err != nil {
			t.add(line, "address", "%v", err)
			return
		}
		d.Address, d.Only = a, append(d.Only, "address")
	}
	if i := slices.IndexFunc(t.out.Nodes, func(o api.NodeDeclare) bool { return o.Name == d.Name }); i >= 0 {
		was := &t.out.Nodes[i]
		for _, m := range d.MACs {
			if !slices.Contains(was.MACs, m) {
				was.MACs = append(was.MACs, m)
			}
		}
		if was.Address == "" && d.Address != "" {
			was.Address, was.Only = d.Address, append(was.Only, "address")
		}
		return
	}
	if err := fleet.ValidNodeName(d.Name); err != nil {
		t.add(line, "name", "%v", err)
		return
	}
	t.keep(t.row(line, d))
}
