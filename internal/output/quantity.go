package output

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Quantity is a flag's value with a unit: a rate in bits per second, or a size in bytes.
type Quantity struct {
	N     int64
	kind  string // "RATE" or "SIZE", as in the documentation
	units map[string]float64
}

// Units are powers of ten, as for links and disks; KiB and the like are powers of two.
var (
	rateUnits = map[string]float64{"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
	sizeUnits = map[string]float64{
		"b":   1,
		"kb":  1e3,
		"mb":  1e6,
		"gb":  1e9,
		"kib": 1 << 10,
		"mib": 1 << 20,
		"gib": 1 << 30,
	}
)

// NewRate returns a flag value for a rate in bits per second.
func NewRate(n int64) *Quantity { return &Quantity{n, "RATE", rateUnits} }

// NewSize returns a flag value for a size in bytes.
func NewSize(n int64) *Quantity { return &Quantity{n, "SIZE", sizeUnits} }

// Set parses "10gbit", "2.5Gbit/s", "21MB".
func (q *Quantity) Set(s string) error {
	text := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(s), "/s"))
	i := strings.LastIndexAny(text, "0123456789.") + 1
	f, err := strconv.ParseFloat(text[:i], 64)
	unit, ok := q.units[strings.TrimSpace(text[i:])]
	if err != nil || !ok || f < 0 || f*unit > math.MaxInt64/8 {
		if q.kind == "RATE" {
			return fmt.Errorf("%q is no rate: want a number with kbit, mbit or gbit, such as 1gbit", s)
		}
		return fmt.Errorf("%q is no size: want a number with kB, MB or GB, such as 21MB", s)
	}
	q.N = int64(f * unit)
	return nil
}

// String returns the value as it would be typed.
func (q *Quantity) String() string {
	if q.N == 0 {
		return ""
	}
	if q.kind == "RATE" {
		return RateText(q.N)
	}
	return strings.ReplaceAll(Size(q.N), " ", "")
}

// Type returns the name of the kind for help and documentation.
func (q *Quantity) Type() string { return q.kind }

// RateText formats a rate: "1gbit", "2.5gbit", "100mbit".
func RateText(n int64) string {
	for _, u := range []string{"gbit", "mbit", "kbit"} {
		if f := float64(n) / rateUnits[u]; f >= 1 {
			return strconv.FormatFloat(f, 'f', -1, 64) + u
		}
	}
	return strconv.FormatInt(n, 10) + "bit"
}
