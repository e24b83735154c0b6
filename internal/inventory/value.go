package inventory

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pando/internal/fleet"
)

// byDefault is the value of a setting that says: as if nothing were set.
const byDefault = "default"

// parseSize reads 64MB, 8GB, 512MiB or a number of bytes.
func parseSize(s string) (int64, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	i := strings.LastIndexAny(text, "0123456789") + 1
	units := map[string]float64{
		"":    1,
		"b":   1,
		"kb":  1e3,
		"mb":  1e6,
		"gb":  1e9,
		"kib": 1 << 10,
		"mib": 1 << 20,
		"gib": 1 << 30,
	}
	unit, ok := units[strings.TrimSpace(text[i:])]
	if n, err := strconv.ParseInt(text[:i], 10, 64); err == nil && ok && n >= 0 && float64(n)*unit < math.MaxInt64/8 {
		return n * int64(unit), nil
	}
	f, err := strconv.ParseFloat(text[:i], 64)
	if err != nil || !ok || !(f >= 0) || f*unit > math.MaxInt64/8 {
		return 0, fmt.Errorf("%q is no size: want a number with kB, MB or GB, such as 64MB", s)
	}
	return int64(f * unit), nil
}

// parseReboot reads after how long a stuck boot reboots: 10m, never.
func parseReboot(s string) (time.Duration, error) {
	if s == "never" {
		return -1, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no time: want 10m, 90s, never or default", s)
	}
	return d, nil
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "yes", "allow":
		return true, nil
	case "false", "no", "deny":
		return false, nil
	}
	return false, fmt.Errorf("%q: want true or false", s)
}

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

// same reads a word as it stands.
func same[T ~string](s string) (T, error) { return T(s), nil }
