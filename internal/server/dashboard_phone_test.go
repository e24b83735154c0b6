package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Text that a machine may report: direction marks, control characters, and endless words.
const (
	steering = "\u202eexe.dab\u202c \x1b[2J\u200b\u2066x\u2069 \u009b31m"
	endless  = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// sayEverything makes a machine report hostile and endless text in every text field, and gives a node and a group the
// longest names.
func (s *site) sayEverything() (node string, boot fleet.BootID) {
	s.t.Helper()
	s.policy(fleet.Open)
	n := s.node(50)
	n.serial = "S50" + steering + endless
	cfg := n.load()
	req := registrationOf(cfg)
	req.Hardware = fleet.Hardware{Vendor: "V" + steering, Product: endless + endless, Serial: n.serial, CPU: steering,
		NIC: "r8169" + steering, CPUs: 4, Memory: 1 << 33, Link: 1000}
	var resp api.RegisterResponse
	if e := n.post("/v1/node/hello", "", req, &resp); e != nil {
		s.t.Fatal(e)
	}
	n.wait(time.Minute)
	unit := `dev-disk-by\x2duuid-` + strings.Repeat("0123abcd", 12) + steering + ".device"
	say := api.ReportRequest{Boot: cfg.Boot, Uptime: time.Minute,
		Events: []trace.Event{
			{Stage: trace.Init, Kind: trace.End, Offset: time.Second, Attrs: map[string]string{trace.AttrKernel: "3s",
				"k" + steering: endless + endless}},
			{Stage: trace.Manifest, Kind: trace.Fail, Offset: 2 * time.Second, Message: steering + endless + endless,
				Hint: steering + strings.Repeat("/very-long-path", 20)},
			{Stage: trace.SwitchRoot, Kind: trace.End, Offset: 3 * time.Second},
			{Stage: trace.SwitchRoot, Kind: trace.Info, Offset: 20 * time.Second, Message: trace.WaitsFor + unit},
			{Stage: trace.Booted, Kind: trace.End, Offset: 50 * time.Second, Message: steering},
		},
		Console: "<6>[    0.000000] " + steering + endless + endless + "\n",
		Pstore:  "panic " + steering + endless,
		Status: &api.NodeStatus{UpperUsed: 9, UpperTotal: 10, Rejected: 3, Systemd: &api.Systemd{
			State: "degraded" + steering, Userspace: 4 * time.Second, Finish: 50 * time.Second,
			Failed: []string{unit, endless},
			Units:  []api.UnitTime{{Unit: unit, Start: 5 * time.Second, Active: 40 * time.Second}}}}}
	if e := n.post("/v1/node/events", "Bearer "+resp.Session, say, nil); e != nil {
		s.t.Fatal(e)
	}
	node = strings.Repeat("w", 63)
	s.update(func(tx *registry.Tx) error {
		g := fleet.Group{Name: strings.Repeat("g", 63), Image: "lab", Follow: true}
		if err := tx.CreateGroup(g); err != nil {
			return err
		}
		x, err := tx.NodeByMAC(n.mac)
		if err != nil {
			return err
		}
		was := x.Name
		x.Name, x.Group, x.Labels = node, g.Name, map[string]string{"room": strings.Repeat("r", 63)}
		return tx.PutNode(was, x)
	})
	s.settled()
	return node, cfg.Boot
}

// everyPage returns the path of every page.
func (v *visit) everyPage(node string, boots ...fleet.BootID) []string {
	v.t.Helper()
	v.Open("/boots")
	pages := []string{"/", "/?by=room", "/?colour=version", "/?select=%40nobody", "/nodes/" + node, "/nodes/pc001",
		"/boots", "/boots?by=version", "/images", "/rollouts", "/rollouts/default-1", "/swarm", "/health", "/audit",
		"/nodes/nobody", "/elsewhere",
		v.Run(`document.querySelector('a[href^="/storm"]').getAttribute("href")`),
		v.Run(`"/compare?before=" + encodeURIComponent(document.getElementById("before").options[1].value) + "&after=" +
			encodeURIComponent(document.getElementById("after").options[0].value)`)}
	for _, b := range boots {
		pages = append(pages, "/boots/"+string(b))
	}
	return pages
}

// On a phone 360 pixels wide no page is wider than the screen, whatever its content, and parts that scroll sideways
// show that. No page has a direction-changing or invisible character of a machine.
func TestPagesOnAPhone(t *testing.T) {
	s, base, token := startDashboard(t)
	boot := s.populate()
	node, hostile := s.sayEverything()
	v := startBrowser(t, base)
	v.Window(360, 740, false)
	v.Open("/")
	v.Fits("login")
	v.Login(token)
	for i, path := range v.everyPage(node, boot, hostile) {
		v.Open(path)
		v.Run(`document.querySelectorAll("details").forEach(d => d.open = true), 0`)
		v.Fits(path)
		v.Keep(fmt.Sprintf("phone-%02d", i))
		v.untouched(path)
		// A part that is cut off at the side can be scrolled, and its edge shows that.
		cut := v.Run(`[...document.querySelectorAll("body *")].filter(e => e.scrollWidth > e.clientWidth + 1 &&
			e.clientWidth > 0 && !["visible", "clip"].includes(getComputedStyle(e).overflowX) &&
			!getComputedStyle(e).clipPath.includes("inset")).map(e => e.tagName + "." + e.className + " " +
			getComputedStyle(e).backgroundAttachment).filter(x => !x.includes("local")).join("; ")`)
		if cut != "" {
			t.Errorf("%s: scrolls, and does not show it: %s", path, cut)
		}
	}
}

// untouched fails if a page or its attributes contain a character that changes how text is shown.
func (v *visit) untouched(path string) {
	v.t.Helper()
	got := v.Run(`[...document.documentElement.outerHTML.matchAll(/[^\n\t\r\x20-\x7e\xa0-\uffff]|[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\xad]/g)]
		.map(m => m.input.slice(Math.max(0, m.index - 40), m.index + 10)).slice(0, 3).map(escape).join("; ")`)
	if got != "" {
		v.t.Errorf("%s: there are characters of a machine on it: %s", path, got)
	}
}
