package boot

import "testing"

func TestLimitBytes(t *testing.T) {
	const all = 1000 << 20
	for limit, want := range map[string]int64{"50%": all / 2, "100%": all, "2g": 2 << 30, "300M": 300 << 20, "64k": 64 << 10, "8193": 8192} {
		if got := limitBytes(limit, all); got != want {
			t.Errorf("%s is %d bytes, want %d", limit, got, want)
		}
	}
}
