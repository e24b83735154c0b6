package fleet

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Power says how a node is switched on and off, as one word without secrets:
//
//	wol                              Wake-on-LAN on the server's own links; "" is the same
//	wol://10.0.3.255                 Wake-on-LAN to the broadcast address of another network
//	redfish://admin@{node}-bmc.lab   Redfish over HTTPS; redfish+http:// without TLS
//	ipmi://admin@{bmc}               IPMI 2.0 over LAN
//	command:NAME                     a program of the server's
//	none                             not from here
//
// In an address {node} stands for the node's name, {serial} for its serial number and {KEY} for the value of its
// label KEY. After a '?' may stand system=ID (Redfish, where a service has several) and tls=any or tls=sha256:HEX
// (Redfish: how its certificate is judged).
type Power string

// PowerMethod is the protocol or program that switches a node.
type PowerMethod string

// The methods.
const (
	PowerWOL     PowerMethod = "wol"
	PowerRedfish PowerMethod = "redfish"
	PowerIPMI    PowerMethod = "ipmi"
	PowerCommand PowerMethod = "command"
	PowerNone    PowerMethod = "none"
)

// PowerTo is a parsed Power: how to reach the power control of one node.
type PowerTo struct {
	Method  PowerMethod
	Host    string // host or host:port; for Wake-on-LAN a broadcast address, "": the server's own links
	User    string
	Plain   bool   // Redfish without TLS
	System  string // Redfish system id; "": the only system
	TLS     string // how the certificate is checked. "": by the system's CAs; "any"; "sha256:HEX" of the certificate
	Command string
}

// Secret reports whether the method needs a password. Wake-on-LAN does not: few network cards have a SecureOn password.
func (p PowerTo) Secret() bool { return p.Method == PowerRedfish || p.Method == PowerIPMI }

// PowerTo returns how node n is switched on and off.
func (n Node) PowerTo(p Power) (PowerTo, error) {
	to, err := p.parse()
	if err == nil {
		to.Host, err = n.fill(to.Host)
	}
	if err != nil {
		return to, fmt.Errorf("power of node %s: %w", n.Name, err)
	}
	return to, nil
}

// fill replaces the placeholders of an address by values of the node.
func (n Node) fill(s string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "{")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		key, after, _ := strings.Cut(rest, "}")
		value := n.Labels[key]
		switch key {
		case "node":
			value = n.Name
		case "serial":
			value = n.Serial
		}
		if value == "" && key == "serial" {
			return "", fmt.Errorf("no serial number was declared, which its address %s wants: pando node set %s "+
				"--serial '%s'", s, n.Name, cmp.Or(n.SerialSeen, "NUMBER"))
		}
		if value == "" {
			return "", fmt.Errorf("it has no %s, which its address %s wants", key, s)
		}
		if strings.ContainsAny(value, "/?#@[]% ") {
			return "", fmt.Errorf("%s %q is no part of an address", key, value)
		}
		out.WriteString(value)
		s = after
	}
}

func (p Power) parse() (PowerTo, error) {
	switch s := string(p); {
	case s == "" || s == string(PowerWOL):
		return PowerTo{Method: PowerWOL}, nil
	case s == string(PowerNone):
		return PowerTo{Method: PowerNone}, nil
	case strings.HasPrefix(s, "command:"):
		name := strings.TrimPrefix(s, "command:")
		return PowerTo{Method: PowerCommand, Command: name}, ValidHook(name)
	}
	scheme, rest, ok := strings.Cut(string(p), "://")
	to := PowerTo{Method: PowerMethod(scheme)}
	if scheme == "redfish+http" {
		to.Method, to.Plain = PowerRedfish, true
	}
	if !ok || len(p) > 512 || !printable(string(p)) {
		return to, p.bad("it is no address of a known kind")
	}
	rest, options, _ := strings.Cut(rest, "?")
	to.Host = rest
	if user, host, has := strings.Cut(rest, "@"); has {
		to.User, to.Host = user, host
	}
	var err error
	switch to.Method {
	case PowerWOL:
		err = to.broadcast()
	case PowerRedfish, PowerIPMI:
		err = to.managed()
	default:
		err = fmt.Errorf("%q is no method", scheme)
	}
	if err = errors.Join(err, to.options(options)); err != nil {
		return to, p.bad(err.Error())
	}
	return to, nil
}

func (p Power) bad(why string) error {
	return fmt.Errorf(
		"power %q: %s; use wol, wol://10.0.3.255, redfish://USER@ADDRESS, ipmi://USER@ADDRESS, command:NAME or none",
		string(p),
		strings.ReplaceAll(why, "\n", "; "),
	)
}

func (p PowerTo) broadcast() error {
	a, err := netip.ParseAddr(p.Host)
	if port, e := netip.ParseAddrPort(p.Host); e == nil {
		a, err = port.Addr(), nil
	}
	if err != nil || !a.Is4() || p.User != "" {
		return fmt.Errorf("%q is no IPv4 broadcast address", p.Host)
	}
	return nil
}

// managed checks the address of a management controller. The address may have placeholders.
func (p PowerTo) managed() error {
	probe := strings.NewReplacer("{", "", "}", "").Replace(p.Host)
	if strings.Count(p.Host, "{") != strings.Count(p.Host, "}") || strings.Contains(p.Host, "{}") {
		return errors.New("braces are around a word each, as in {node}")
	}
	u, err := url.Parse("https://" + probe)
	if err != nil || u.Host != probe || u.Hostname() == "" {
		return fmt.Errorf("%q is no host with or without a port", p.Host)
	}
	if p.User == "" || len(p.User) > 64 || strings.ContainsAny(p.User, ":/ ") {
		return errors.New("it names no user, as in admin@ADDRESS; the password is given apart")
	}
	return nil
}

func (p *PowerTo) options(text string) error {
	q, err := url.ParseQuery(text)
	if err != nil {
		return err
	}
	for key, values := range q {
		v := values[0]
		switch {
		case len(values) > 1:
			return fmt.Errorf("%s is given twice", key)
		case key == "system" && p.Method == PowerRedfish && ValidName("system", strings.ToLower(v)) == nil:
			p.System = v
		case key == "tls" && p.Method == PowerRedfish && !p.Plain && validTLS(v):
			p.TLS = v
		default:
			return fmt.Errorf("%s=%s is not an option of an address for %s", key, v, p.Method)
		}
	}
	return nil
}

func validTLS(v string) bool {
	sum, ok := strings.CutPrefix(v, "sha256:")
	b, err := hex.DecodeString(sum)
	return v == "any" || ok && err == nil && len(b) == 32
}

// SecureOn parses the SecureOn password of a network card: six bytes written like a MAC, or four like an IPv4 address.
func SecureOn(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	if m, err := ParseMAC(text); err == nil {
		return m[:], nil
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Is4() {
		b := a.As4()
		return b[:], nil
	}
	return nil, errors.New("a SecureOn password is six bytes like 01:02:03:04:05:06, or four like 1.2.3.4")
}

// PowerWish is the last order for a node: to be on, or off.
type PowerWish struct {
	Node string
	On   bool
	At   time.Time
	Who  string // "token anna", "hours"
}

// Wanted reports whether a node should be on. The last order counts until the timetable switches next. Without an order
// and a timetable it is unknown. now must be in the timetable's time zone.
func Wanted(t *Timetable, wish *PowerWish, now time.Time) (on, known bool) {
	if t == nil {
		return wish != nil && wish.On, wish != nil
	}
	if wish != nil {
		if _, _, switched := t.Edge(wish.At, now); !switched {
			return wish.On, true
		}
	}
	return t.On(now), true
}
