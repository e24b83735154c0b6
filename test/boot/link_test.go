package boot

import (
	"context"
	"strings"
	"testing"

	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// A program in the image removes the address and the link that the root depends on, three times while cold files are
// read. Both are restored, every byte is right, and the timeline reports it. Then both daemons are killed, one after
// the other.
func TestRealBootRepairsItsLink(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 9, 0, 1}, firmware: testkit.BIOS, group: bookworm}
	m := s.boot(n)
	g := s.shell(n)
	files := strings.Fields(
		s.run(
			g,
			"find /usr/share/zoneinfo /usr/share/perl /usr/lib/x86_64-linux-gnu/perl* -xdev -type f | head -n 200",
		),
	)
	if len(files) < 200 {
		t.Fatalf("only %d cold files", len(files))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*stepTimeout)
	defer cancel()
	// The script runs in the background, because the ssh connection stalls meanwhile.
	const cut = `nic=$(ip -4 -o route get 10.77.0.1 | sed 's/.* dev \([^ ]*\).*/\1/')
		setsid sh -c "for i in 1 2 3; do ip addr flush dev $nic; ip link set $nic down; sleep 3; done" >/dev/null 2>&1 </dev/null &`
	read := g.Start(ctx, "sleep 1; sha256sum "+strings.Join(files[:100], " "))
	s.run(g, cut)
	out, err := read()
	if err != nil {
		t.Fatalf("reading while the link was taken away: %v", err)
	}
	s.compare(out, 100)
	s.waitEvent(n.name, m, func(e trace.Event) bool {
		return e.Kind == trace.Info && strings.Contains(e.Message+e.Attrs["kind"], "link-fixed")
	})
	out = s.run(
		g,
		`kill -9 $(pgrep -xf '@pando-super.*'); sleep 3; kill -9 $(pgrep -xf '@pando-block.*'); sleep 1; sha256sum `+
			strings.Join(files[100:], " "),
	)
	s.compare(out, 100)
	s.noErrors(n, g)
}
