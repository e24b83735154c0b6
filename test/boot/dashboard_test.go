package boot

import (
	"fmt"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// dashboardAt is the URL of the dashboard inside the server's network.
const dashboardAt = "http://127.0.0.1:8484"

// lookTime bounds a visit during which a machine boots twice.
const lookTime = 2*bootTimeout + 2*stepTimeout

// TestRealDashboard: without a reload, one browser shows the map and another the boot of a real machine, from power-on
// until it is up. The boot's page is complete, and a button reboots the machine.
func TestRealDashboard(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	n := node{
		name:     "pc001",
		mac:      fleet.MAC{0x52, 0x54, 0, 0x3d, 0, 1},
		firmware: testkit.UEFI,
		group:    bookworm,
		memory:   1024,
	}
	s.announce(n)
	token, err := s.API.CreateToken(t.Context(), api.TokenCreate{Name: "desk"})
	if err != nil {
		t.Fatal(err)
	}
	fleetPage, bootPage := s.watch(token.Secret), s.watch(token.Secret)
	watchTile(fleetPage, n.name)

	m, booted := s.powerOn(n)
	first := s.wait(n.name, bootTimeout, m, func(now api.Node) bool { return now.Boot != nil })
	bootPage.Open("/boots/" + string(first.Boot.ID))
	bootPage.Until(`document.getElementById("pulse").textContent === "live"`)
	bootPage.Run(`window.sameDocument = true, window.rows_ = document.querySelectorAll(".fall tbody tr").length`)
	s.waitUp(n, m)
	booted()
	s.wholeBoot(bootPage)
	s.seenBooting(fleetPage, n.name)

	g := s.shell(n)
	const kernel = "cat /proc/sys/kernel/random/boot_id"
	before := s.run(g, kernel)
	bootPage.Open("/nodes/" + n.name)
	bootPage.Accessible("a node that is up")
	bootPage.Keep("guest-node")
	bootPage.Run(
		`document.getElementById("power").value = "reboot"; document.querySelector("input[name=sure]").checked = true; ` +
			`document.getElementById("power").form.querySelector("button").click()`,
	)
	bootPage.Arrived()
	bootPage.Until(`/reboot for .*desk/.test(document.querySelector(".outcome").innerText)`)
	watchTile(fleetPage, n.name)
	s.wait(n.name, bootTimeout, m, func(now api.Node) bool {
		return now.Boot != nil && now.Boot.ID != first.Boot.ID && now.Boot.State.Reached()
	})
	s.seenBooting(fleetPage, n.name)
	if after := s.run(s.shell(n), kernel); after == before {
		t.Errorf("the page rebooted the machine, and the same kernel runs: %s", after)
	}
	bootPage.Until(`document.querySelector("h1").innerText.includes("booted")`)
	bootPage.Quiet("the node's page")
	fleetPage.Quiet("the map")
	s.powerOff(m)
}

// watch opens the map in a browser with a login.
func (s *site) watch(token string) *testkit.Visit {
	s.t.Helper()
	v := testkit.NewVisit(s.t, s.net, dashboardAt, lookTime)
	v.Login(token)
	v.Until(`document.getElementById("pulse").textContent === "live"`)
	v.Run(`window.sameDocument = true`)
	return v
}

// watchTile makes a page record what it shows about a node.
func watchTile(v *testkit.Visit, node string) {
	v.Run(fmt.Sprintf(`clearInterval(window.watching_), window.seen_ = [], window.watching_ = setInterval(() => {
		const tile = document.getElementById("n-%s"), now = tile ? tile.className : "none";
		if (seen_[seen_.length - 1] !== now) seen_.push(now); }, 100), 0`, node))
}

// seenBooting fails the test unless the map showed each stage of a node's boot, without a reload.
func (s *site) seenBooting(v *testkit.Visit, node string) {
	s.t.Helper()
	v.Until(fmt.Sprintf(`document.getElementById("n-%s").className.includes("booted")`, node))
	seen := v.Run(`seen_.join(", ")`)
	s.t.Logf("the tile was %s", seen)
	if strings.Count(seen, "booting p") < 5 {
		s.t.Errorf("the map showed %s of a boot", seen)
	}
	if v.Run(`window.sameDocument`) != "true" {
		s.t.Error("the map was loaded again")
	}
}

// wholeBoot fails the test unless the page of a finished boot has all parts.
func (s *site) wholeBoot(v *testkit.Visit) {
	s.t.Helper()
	v.Until(`document.querySelector("h1").innerText.includes("booted")`)
	v.Until(`document.querySelectorAll(".units .chain").length > 2`)
	stages := v.Run(
		`[...document.querySelectorAll("[aria-labelledby=stages] th[scope] .name")].map(n => n.textContent).join(" ")`,
	)
	for _, stage := range trace.Stages() {
		if stage != trace.Shutdown && !strings.Contains(" "+stages+" ", " "+string(stage)+" ") {
			s.t.Errorf("the waterfall has no %s: %s", stage, stages)
		}
	}
	for what, script := range map[string]string{
		"the parts of a boot":             `[..."firmware agent image".split(" ")].every(p => document.querySelector("rect.part-" + p))`,
		"a chain that ends at the target": `[...document.querySelectorAll(".units .chain .name")].pop().textContent.endsWith(".target")`,
		"bytes of kernel and initramfs":   `/kernel and initramfs\s+[\d.]+\sMB/.test(document.querySelector(".bytes").innerText)`,
		"bytes of the server":             `/server\s+[\d.]+\sMB/.test(document.querySelector(".bytes").innerText)`,
		"more stages than at the start":   `document.querySelectorAll(".fall tbody tr").length > window.rows_`,
		"the document that was opened":    `window.sameDocument`,
	} {
		if v.Run(script) != "true" {
			s.t.Errorf("the page of the boot does not have %s:\n%s", what, v.Run(`document.body.innerText`))
		}
	}
	s.t.Logf(
		"critical chain: %s",
		v.Run(`[...document.querySelectorAll(".units .chain .name")].map(n => n.textContent).join(" ")`),
	)
	v.Accessible("a boot")
	for _, look := range []struct {
		name  string
		width int
		dark  bool
	}{{"guest-boot-dark", 1280, true}, {"boot-phone", 390, false}, {"boot", 1280, false}} {
		v.Window(look.width, 1700, look.dark)
		v.Fits(look.name)
		v.Keep(look.name)
	}
	v.Window(1280, 800, false)
	v.Quiet("the page of a boot")
}
