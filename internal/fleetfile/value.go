package fleetfile

import (
	"fmt"
	"net/netip"
	"strings"

	"go.yaml.in/yaml/v3"

	"pando/internal/fleet"
)

// byDefault is the word that resets a setting to its default.
const byDefault = "default"

func parseMAC(s string) (fleet.MAC, error) { return fleet.ParseMAC(s) }

func parseAddress(s string) (string, error) {
	a, err := netip.ParseAddr(strings.TrimSpace(s))
	if err != nil {
		return "", fmt.Errorf("address %q is not an IPv4 address", s)
	}
	return a.String(), fleet.ValidAddress(a)
}

// value parses one word with the function read; "default" gives the zero value.
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
