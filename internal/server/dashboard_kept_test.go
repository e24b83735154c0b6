package server

import (
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
)

// TestDashboardKept: a node's page shows what the node keeps, what it will keep, and the pending orders about it.
func TestDashboardKept(t *testing.T) {
	site, base, token := startDashboard(t)
	site.addImage()
	s := &stateful{site: site, c: operatorOf(t, site)}
	on := "nfs 10.0.0.1:/state"
	set := func(paths ...string) {
		t.Helper()
		if _, err := s.c.SetGroup(t.Context(), "default",
			api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{StateOn: &on, Persist: &paths}}}); err != nil {
			t.Fatal(err)
		}
	}
	set("/srv", "/var/lib/containers")
	_, _, say := s.boot(1)
	v := startBrowser(t, base)
	v.Login(token)
	const kept = `[...document.querySelectorAll(".kept tbody tr")].map(r => [...r.cells].map(c => c.textContent.trim()).join("|")).join("\n")`
	look := func(want ...string) {
		t.Helper()
		v.Open("/nodes/node001")
		got := v.Run(kept)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("no %q in\n%s", w, got)
			}
		}
	}
	look("/srv||"+on+"||", "/var/lib/containers||"+on, "from its next boot on")
	say(onNFS + "kept\t/srv\t1795600000\t4096\nkept\t/var/lib/containers\t1795600000\t734003200\n")
	look("/srv|4.1\u00a0kB|"+on, "/var/lib/containers|734\u00a0MB|"+on)
	set("/srv")
	if _, err := s.c.ResetState(t.Context(), "node001", api.StateChange{Paths: []string{"/srv"}}); err != nil {
		t.Fatal(err)
	}
	look("/srv|", "not declared any more")
	if page := v.Run("document.body.textContent"); !strings.Contains(page, "at its next boot: reset of /srv") {
		t.Errorf("no word of the reset in\n%s", page)
	}
	v.Accessible("a node that keeps something")
	v.Window(390, 844, true)
	v.Fits("a node that keeps something, on a phone")
	for _, p := range v.Problems() {
		t.Error(p)
	}
}
