package units

import (
	"io"
	"testing"

	"pando/internal/rundir"
)

func TestExcludeLine(t *testing.T) {
	for _, c := range []struct{ others, want string }{
		{"", "EXCLUDE_INTERFACES=\"eth0 ens3\"\n"},
		{"wl* docker0", "EXCLUDE_INTERFACES=\"wl* docker0 eth0 ens3\"\n"},
		{"eth0 ens3", "EXCLUDE_INTERFACES=\"eth0 ens3\"\n"}, // the line that IfupdownEnv wrote before
	} {
		if got := excludeLine(c.others, "eth0", "ens3"); got != c.want {
			t.Errorf("beside %q: %q, want %q", c.others, got, c.want)
		}
	}
}

// TestOwnNIC: the image's unit is skipped only for an adapter that is certainly the root's.
func TestOwnNIC(t *testing.T) {
	dir := t.TempDir()
	if got := OwnNIC(dir, "eth0", io.Discard); got != 0 {
		t.Errorf("without a session: %d, want 0, the image's business goes on", got)
	}
	if err := rundir.WriteJSON(dir, rundir.SessionName, 0o600, rundir.Session{Interface: 1}); err != nil {
		t.Fatal(err)
	}
	if got := OwnNIC(dir, "lo", io.Discard); got != 1 {
		t.Errorf("the adapter itself: %d, want 1", got)
	}
	if got := OwnNIC(dir, "eth9", io.Discard); got != 0 {
		t.Errorf("another adapter: %d, want 0", got)
	}
}
