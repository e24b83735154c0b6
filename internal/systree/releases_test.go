package systree

import (
	"testing"
)

func TestCompareReleases(t *testing.T) {
	for _, c := range []struct{ older, newer string }{
		{"6.1.0-9-amd64", "6.1.0-10-amd64"}, {"6.9", "6.12"}, {"6.1", "6.1.1"}, {"5.10.0", "6.1.0"}, {"1.5", "1.8.5"},
		{"1.8.5", "1.8.10"},
	} {
		if CompareReleases(c.older, c.newer) >= 0 || CompareReleases(c.newer, c.older) <= 0 {
			t.Errorf("%s is not older than %s", c.older, c.newer)
		}
	}
}
