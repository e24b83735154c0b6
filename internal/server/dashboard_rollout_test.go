package server

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/trace"
)

// rolls starts a rollout to the version before. Its canary is told to reboot, and does not.
func (s *site) rolls() {
	s.t.Helper()
	client := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	image, err := client.Image(s.t.Context(), "lab")
	if err != nil {
		s.t.Fatal(err)
	}
	old := image.Versions[len(image.Versions)-1].Digest
	x, err := client.StartRollout(
		s.t.Context(),
		api.RolloutStart{Group: fleet.DefaultGroup, Image: fleet.Ref("lab@" + string(old))},
	)
	if err != nil || x.ID != "default-1" {
		s.t.Fatalf("rollout %q: %v", x.ID, err)
	}
}

// TestDashboardLeadsARollout: a rollout is started, paused, resumed and aborted on the pages, which show each change
// without a reload. A form that this site did not make is refused.
func TestDashboardLeadsARollout(t *testing.T) {
	s, base, token := startDashboard(t)
	_, other := s.addImage(func(m *image.Manifest) { m.CommandLine = []string{"quiet", "before"} })
	s.addImage()
	r := readRecorded(t)
	for i := range byte(3) {
		s.node(i+1).replay(r, trace.Booted)
	}
	v := startBrowser(t, base)
	v.Login(token)
	v.Open("/rollouts")
	v.Until(`document.body.innerText.includes("No rollout yet")`)
	v.methods()
	v.Run(
		fmt.Sprintf(
			`document.getElementById("r-image").value = "lab@%s"; document.getElementById("r-method").value = "kexec"; document.getElementById("r-image").form.requestSubmit()`,
			other,
		),
	)
	v.Arrived()
	state := `document.querySelector("h1 .mood").innerText`
	v.Until(`location.pathname === "/rollouts/default-1" && ` + state + ` === "running"`)
	v.Run(`window.sameDocument = true`)
	client := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	if x, err := client.Rollout(t.Context(), "default-1"); err != nil || x.Plan.Method != fleet.MethodKexec {
		t.Errorf("nodes come there by %q, %v", x.Plan.Method, err)
	}
	v.Until(`[...document.querySelectorAll("dl.facts dd")].some(d => d.innerText === "kexec")`)
	if _, err := client.PauseRollout(t.Context(), "default-1"); err != nil {
		t.Fatal(err)
	}
	v.Until(state + ` === "paused"`)
	if v.Run(`window.sameDocument`) != "true" {
		t.Error("the page was loaded again")
	}
	for _, step := range [][2]string{{"resume", "running"}, {"pause", "paused"}, {"abort", "roll"}} {
		v.Until(fmt.Sprintf(`document.querySelector('form[action$="/%s"]')`, step[0]))
		v.Run(fmt.Sprintf(`document.querySelector('form[action$="/%s"]').requestSubmit()`, step[0]))
		v.Arrived()
		v.Until(state + fmt.Sprintf(`.startsWith("%s")`, step[1]))
	}
	v.Quiet("a rollout")
}

// methods checks the offered boot methods: all of them, reboot by default, each with an explanation.
func (v *visit) methods() {
	v.t.Helper()
	offered := v.Run(`[...document.querySelectorAll("#r-method option")].map(o => o.value).sort().join()`)
	var want []string
	for _, m := range fleet.BootMethods() {
		want = append(want, string(m))
		if got := v.Run(fmt.Sprintf(`[...document.querySelectorAll("#r-methods dt")].filter(d => d.innerText === %q && d.nextElementSibling.innerText.length > 20).length`, m)); got != "1" {
			v.t.Errorf("what %s means stands there %s times", m, got)
		}
	}
	slices.Sort(want)
	if chosen := v.Run(`document.getElementById("r-method").value`); offered != strings.Join(want, ",") ||
		chosen != string(fleet.MethodReboot) {
		v.t.Errorf("offered: %s, and %s", offered, chosen)
	}
}
