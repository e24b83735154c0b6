package fleetfile

import (
	"fmt"
	"net/netip"
	"strings"

	"go.yaml.in/yaml/v3"

	"pando/internal/fleet"
)

// byDefault is the value of a setting that says: as if nothing were set.
const byDefault = "default"

func parseMAC(s string) (fleet.MAC, error) { return fleet.ParseMAC(s) }

func parseAddress(s string) (string, error) {
	a, err := netip.ParseAddr(strings.TrimSpace(s))
	if err != nil {
		return "", fmt.Errorf("address %q is not an IPv4 address", s)
	}
	return a.String(), fleet.ValidAddress(a)
}

// value reads one word with a function; "default" is the zero value.
func value[T any](r *reader, n *yaml.Node, read func(string) (T, error)) (v T) {
	text := r.text(n)
	if text == byDefault {
		return v
	}
	v, err := read(text)
	if err != nil {
		r.add(r.real(n).Line, "", "%v", err)
	}
	return v
}
