package initrd

import (
	"strings"
	"testing"
)

// A kernel before 6.4 logs "tmpfs: Unknown parameter 'noswap'" as an error.
func TestOptionsOfRun(t *testing.T) {
	for release, want := range map[string]bool{
		"6.1.0-28-amd64": false, "6.3.9": false, "5.15.0-107-generic": false, "": false, "odd": false,
		"6.4.0": true, "6.12.57+deb13-amd64": true, "7.0.0-rc1": true,
	} {
		if got := strings.Contains(runOptions(release), "noswap"); got != want {
			t.Errorf("%q: noswap is %v", release, got)
		}
	}
}
