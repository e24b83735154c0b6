package trace

import (
	"slices"
	"testing"
	"time"
)

func TestBursts(t *testing.T) {
	at := func(seconds ...int) []time.Time {
		var out []time.Time
		for _, s := range seconds {
			out = append(out, time.Unix(int64(s), 0))
		}
		return out
	}
	for _, c := range []struct {
		starts []time.Time
		want   []BootStorm
	}{
		{nil, nil}, {at(1, 2), nil}, {at(1, 2, 3), []BootStorm{{0, 2}}}, {at(1, 11, 21, 32), []BootStorm{{0, 2}}},
		{at(0, 100, 101, 102, 200, 300, 305, 306, 310), []BootStorm{{1, 3}, {5, 8}}},
	} {
		if got := BootStorms(c.starts, 10*time.Second, 3); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.starts, got, c.want)
		}
	}
}
