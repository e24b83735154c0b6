package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// The kind of write layer that a node reports is shown in the API and on its page, together with the setting if that
// differs.
func TestWriteLayerOfANode(t *testing.T) {
	s, base, token := startDashboard(t)
	version := s.withSystemd("252.1")
	c, ctx := operatorOf(t, s), t.Context()
	zram := "zram"
	if _, err := c.SetGroup(ctx, fleet.DefaultGroup,
		api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{WriteLayer: &zram}}}); err != nil {
		t.Fatal(err)
	}
	n := s.node(1)
	boot, session := s.running(n)
	d := loggedIn(t, base, token)
	for _, x := range []struct{ says, want string }{
		{"", ""}, {"tmpfs", "tmpfs, and its settings say zram"}, {"zram", "zram"}, {"disk", "disk wipe, and its " +
			"settings say zram"},
		{strings.Repeat("x", 100), ""}, {"<b>", ""},
	} {
		req := api.ReportRequest{
			Boot:   boot,
			Uptime: time.Hour,
			Events: []trace.Event{},
			Status: &api.NodeStatus{Version: version, WriteLayer: x.says},
		}
		if e := n.post("/v1/node/events", session, req, nil); e != nil {
			t.Fatal(e)
		}
		got, err := c.Node(ctx, "node001")
		if err != nil || got.Writes().String() != x.want {
			t.Errorf("a node that says %q: %q, %v, want %q", x.says, got.Writes(), err, x.want)
		}
		page := d.text(t, func() (*http.Response, error) { return d.Get(base + "/nodes/node001") })
		if has := strings.Contains(page, "<dt>Writes go to</dt><dd>"+x.want+"</dd>"); has != (x.want != "") {
			t.Errorf("a node that says %q: %v that %q is on its page", x.says, has, x.want)
		}
	}
}
