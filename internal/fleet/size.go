package fleet

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize parses a number of bytes: 64MB, 20GB, 1.5TB, 16GiB, or a plain number.
func ParseSize(s string) (int64, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	i := strings.LastIndexAny(text, "0123456789") + 1
	units := map[string]float64{
		"":    1,
		"b":   1,
		"kb":  1e3,
		"mb":  1e6,
		"gb":  1e9,
		"tb":  1e12,
		"k":   1 << 10,
		"m":   1 << 20,
		"g":   1 << 30,
		"t":   1 << 40,
		"kib": 1 << 10,
		"mib": 1 << 20,
		"gib": 1 << 30,
		"tib": 1 << 40,
	}
	unit, ok := units[strings.TrimSpace(text[i:])]
	n, err := strconv.ParseInt(text[:i], 10, 64)
	if err == nil && ok && n >= 0 && float64(n)*unit < math.MaxInt64/8 {
		return n * int64(unit), nil // exact; a float is not
	}
	f, err := strconv.ParseFloat(text[:i], 64)
	if err != nil || !ok || !(f >= 0) || f*unit > math.MaxInt64/8 {
		return 0, fmt.Errorf("%q is no size: want a number with kB, MB or GB, such as 64MB", s)
	}
	return int64(f * unit), nil
}

// SizeText returns a number of bytes as flags and files have it, exact: 64MB, 8GB; "" for 0.
func SizeText(n int64) string {
	switch {
	case n == 0:
		return ""
	case n%1e9 == 0:
		return fmt.Sprintf("%dGB", n/1e9)
	case n%1e6 == 0:
		return fmt.Sprintf("%dMB", n/1e6)
	case n%1e3 == 0:
		return fmt.Sprintf("%dkB", n/1e3)
	}
	return fmt.Sprintf("%dB", n)
}
