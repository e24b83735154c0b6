package boots

import (
	"net/netip"
	"testing"
	"time"

	"pando/internal/fleet"
)

func TestExchangesAreBounded(t *testing.T) {
	var x exchanges
	now := time.Now()
	for i := range maxExchanges + 100 {
		x.note(fleet.MAC{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)}, netip.MustParseAddr("127.0.0.1"), now)
	}
	if len(x.byMAC) != maxExchanges || x.recent.Len() != maxExchanges {
		t.Errorf("%d remembered", len(x.byMAC))
	}
	if !x.lastSeen(fleet.MAC{2}).IsZero() || x.lastSeen(fleet.MAC{2, 0, 0, 0, 1, 0}).IsZero() {
		t.Error("the wrong ones were forgotten")
	}
}

// never reports that no machine runs.
func never(fleet.MAC, time.Time, time.Duration) bool { return false }
