package server

import (
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/trace"
)

// TestEveryPageIsLive: each page shows a new event without a reload. The map, rollouts and storms have tests of their
// own.
func TestEveryPageIsLive(t *testing.T) {
	s, base, token := startDashboard(t)
	s.addImage()
	r := readRecorded(t)
	s.node(1).replay(r, trace.Booted)
	p := s.node(2).play(r)
	p.report(trace.Manifest, time.Second)
	s.settled()
	v := startBrowser(t, base)
	v.Login(token)
	client := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	text := func(s string) string { return fmt.Sprintf(`document.body.innerText.includes(%q)`, s) }
	for _, x := range []struct {
		path, before string
		happens      func() error
		after        string
	}{
		{"/boots/" + string(p.boot), `!` + text("switchroot"),
			func() error { p.report(trace.SwitchRoot, r.Uptime); return nil }, text("switchroot")},
		{"/nodes/node002", text("booting"), func() error { p.report(trace.Booted, r.Uptime); return nil },
			text("booted in")},
		{"/boots", `document.querySelectorAll("table.boots tbody tr").length === 2`,
			func() error { s.node(3).replay(r, trace.Register); return nil },
			`document.querySelectorAll("table.boots tbody tr").length === 3`},
		{"/swarm", text("2\u00a0nodes") + `||` + text("3\u00a0nodes"),
			func() error { s.node(4).replay(r, trace.Booted); return nil }, text("4\u00a0nodes")},
		{"/images", `document.querySelectorAll("#images tbody tr").length === 1`, func() error {
			s.addImage(func(m *image.Manifest) { m.CommandLine = []string{"quiet", "another"} })
			s.node(5).replay(r, trace.Booted)
			return nil
		}, `document.querySelectorAll("#images tbody tr").length === 2`},
		{"/health", `!` + text("Group empty has"), func() error {
			if _, err := client.CreateGroup(t.Context(), fleet.Group{Name: "empty"}); err != nil {
				return err
			}
			empty := "empty"
			if _, err := client.SetNodes(t.Context(), api.NodeSet{Select: "node001", Group: &empty}); err != nil {
				return err
			}
			s.node(6).replay(r, trace.Register)
			return nil
		}, text("Group empty has")},
		{"/?select=" + url.QueryEscape("node00[1-9]"), `document.querySelectorAll(".t").length === 6`,
			func() error { s.node(7).replay(r, trace.Booted); return nil },
			`document.querySelectorAll(".t").length === 7`},
	} {
		v.Open(x.path)
		v.Until(`document.getElementById("pulse").textContent === "live"`)
		v.Until(x.before)
		v.Run(`window.sameDocument = true`)
		if err := x.happens(); err != nil {
			t.Fatalf("%s: %v", x.path, err)
		}
		v.Until(x.after)
		if v.Run(`window.sameDocument`) != "true" {
			t.Errorf("%s was loaded again", x.path)
		}
		v.Quiet(x.path)
	}
}

// TestDashboardOutlivesARestart: while the server is down a page says so, and shows its last content. When the server
// is back, the page is live again and shows what happened meanwhile, without having been loaded again.
func TestDashboardOutlivesARestart(t *testing.T) {
	s, base, token := startDashboard(t)
	s.addImage()
	r := readRecorded(t)
	s.node(1).replay(r, trace.Booted)
	p := s.node(2).play(r)
	p.report(trace.Manifest, time.Second)
	v := startBrowser(t, base)
	v.Login(token)
	live := `document.getElementById("pulse").textContent === "live"`
	tile := func(n int, look string) string {
		return fmt.Sprintf(`(document.getElementById("n-node%03d") || {className: ""}).className.includes(%q)`, n, look)
	}
	v.Until(live + ` && ` + tile(2, "booting"))
	v.Run(`window.sameDocument = true`)
	for round := range 2 {
		s.stop()
		v.Until(
			`document.getElementById("pulse").textContent.startsWith("no answer since") && document.getElementById("pulse").className === "pulse off"`,
		)
		if v.Run(tile(1, "booted")) != "true" {
			t.Error("what was known is not shown while the server is away")
		}
		s.start()
		// This happens before the page may have found the server again, and is not repeated.
		if round == 0 {
			p.report(trace.Booted, r.Uptime)
			v.Until(tile(2, "booted"))
		} else {
			s.node(3).replay(r, trace.Booted)
			v.Until(tile(3, "booted"))
			v.Until(`document.querySelector('[data-count="booted"]').textContent === "3"`)
		}
		v.Until(live)
		if v.Run(`window.sameDocument`) != "true" {
			t.Error("the page was loaded again")
		}
	}
	for _, problem := range v.Problems() {
		t.Logf("while the server was away: %s", problem)
	}
	v.Open("/boots")
	v.Quiet("after two restarts")
}
