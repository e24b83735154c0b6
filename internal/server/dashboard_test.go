package server

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// recorded is a boot of an emulated machine as its agent reported it.
type recorded struct {
	Hardware fleet.Hardware `json:"hardware"`
	Uptime   time.Duration  `json:"uptime"`
	Events   []trace.Event  `json:"events"`
	Status   api.NodeStatus `json:"status"`
}

func readRecorded(t testing.TB) recorded {
	t.Helper()
	raw, err := os.ReadFile("testdata/boot.json")
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// replay plays the recorded boot up to a stage.
func (n *node) replay(r recorded, until trace.Stage) fleet.BootID {
	n.t.Helper()
	p := n.play(r)
	n.wait(r.Uptime)
	p.report(until, r.Uptime)
	return p.boot
}

// replayed is a boot in progress.
type replayed struct {
	*node
	recorded
	boot    fleet.BootID
	session string
	slow    float64 // multiplies the times of the recording
}

// play boots a node until it has registered.
func (n *node) play(r recorded) *replayed {
	n.t.Helper()
	cfg := n.load()
	register := registrationOf(cfg)
	register.Hardware = r.Hardware
	var resp api.RegisterResponse
	if e := n.post("/v1/node/hello", "", register, &resp); e != nil {
		n.t.Fatal(e, e.Hint)
	}
	return &replayed{n, r, cfg.Boot, resp.Session, 1}
}

// report sends the recorded events up to a stage, as of a time since init.
func (p *replayed) report(until trace.Stage, uptime time.Duration) {
	p.t.Helper()
	report := api.ReportRequest{Boot: p.boot, Uptime: uptime}
	for _, e := range p.Events {
		if trace.Rank(e.Stage) <= trace.Rank(until) {
			e.Offset = min(time.Duration(float64(e.Offset)*p.slow), uptime)
			report.Events = append(report.Events, e)
		}
	}
	if until == trace.Booted {
		status := p.Status
		status.Version = p.version(p.boot)
		report.Status = &status
	}
	if e := p.post("/v1/node/events", "Bearer "+p.session, report, nil); e != nil {
		p.t.Fatal(e, e.Hint)
	}
}

func (s *site) version(id fleet.BootID) (v fleet.Digest) {
	s.t.Helper()
	err := s.registry.View(s.t.Context(), func(tx *registry.Tx) error {
		b, err := tx.Boot(id)
		v = b.Version
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// visit is a browser that has logged in to a site's dashboard.
type visit struct {
	*testkit.Visit
	t   testing.TB
	ctx context.Context
}

// startBrowser opens a browser, or skips the test where there is none.
func startBrowser(t testing.TB, base string) *visit {
	t.Helper()
	v := testkit.NewVisit(t, nil, base)
	return &visit{v, t, v.Context()}
}

// startDashboard runs a site whose dashboard keeps its port over a restart, and returns an operator's token.
func startDashboard(t testing.TB, change ...func(*Config)) (s *site, base, token string) {
	t.Helper()
	s = startSite(t, append([]func(*Config){func(c *Config) { c.Dashboard = "127.0.0.1:0" }}, change...)...)
	s.cfg.Dashboard = fmt.Sprintf("127.0.0.1:%d", s.dashboardPort)
	made, err := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile)).
		CreateToken(t.Context(), api.TokenCreate{Name: "desk"})
	if err != nil {
		t.Fatal(err)
	}
	return s, "http://" + s.cfg.Dashboard, made.Secret
}

// populate plays a fleet from the recording: most nodes are up, one failed, one boots, one waits for adoption.
func (s *site) populate() (up fleet.BootID) {
	s.t.Helper()
	r := readRecorded(s.t)
	s.policy(fleet.Open)
	s.addImage(func(m *image.Manifest) { m.CommandLine = []string{"quiet", "before"} })
	s.bootMany(1, 8, r, 0.75)
	s.addImage()
	s.clock.add(time.Hour)
	began := s.now()
	var all []*replayed
	for i := range byte(24) {
		n := s.node(i + 1)
		n.brisk = 12
		all = append(all, n.play(r))
	}
	s.clock.add(r.Uptime)
	for i, p := range all {
		p.slow = 0.8 + float64(i%7)*0.05
		p.report(trace.Booted, r.Uptime-time.Duration(i)*100*time.Millisecond)
		up = p.boot
	}
	s.feed(all, began)
	late := s.node(31)
	late.brisk = 2
	p := late.play(r)
	s.clock.add(3 * time.Second)
	p.report(trace.Device, 2*time.Second)
	bad := s.node(32)
	cfg := bad.load()
	bad.register(cfg)
	e := bad.post(
		"/v1/node/events",
		"Boot "+cfg.Token,
		api.ReportRequest{Boot: cfg.Boot, Uptime: 4 * time.Second, Events: []trace.Event{
			{Stage: trace.Init, Kind: trace.End, Offset: time.Second, Attrs: map[string]string{trace.AttrKernel: "3s"}},
			{
				Stage:   trace.Link,
				Kind:    trace.Fail,
				Offset:  2 * time.Second,
				Message: "no driver for network card 10ec:8168",
				Hint:    "it needs firmware that Debian keeps in firmware-realtek: add it to the recipe",
			}}},
		nil,
	)
	if e != nil {
		s.t.Fatal(e)
	}
	s.policy(fleet.Approve)
	s.node(40).exchange(netboot.PXE)
	s.update(func(tx *registry.Tx) error {
		nodes, err := tx.Nodes()
		for i, n := range nodes {
			n.Labels = map[string]string{"room": []string{"b12", "b14"}[i%2]}
			if err == nil {
				err = tx.PutNode(n.Name, n)
			}
		}
		return err
	})
	s.settled()
	s.rolls()
	return up
}

// TestDashboardPages opens every page in a browser: no errors, no requests to other hosts, and no findings of axe-core,
// in light, dark and on a phone.
func TestDashboardPages(t *testing.T) {
	s, base, token := startDashboard(t)
	boot := s.populate()
	s.settled()
	v := startBrowser(t, base)
	v.Open("/")
	v.Accessible("login")
	v.Login(token)
	pages := map[string]string{
		"/": "Fleet", "/?by=room": "b14", "/?colour=version": "Versions", "/?select=pc%5B001": "brackets do not " +
			"match", "/?select=%40nobody": "No node is in this set",
		"/nodes/pc001": "After a reboot", "/nodes/pc026": "no driver", "/boots/" + string(boot): "systemd",
		"/boots": "Many at once", "/boots?by=version": "Compare two versions",
		"/images": "lab", "/rollouts": "Under way", "/rollouts/default-1": "canary", "/swarm": "Roots, by " +
			"group", "/health": "firmware-realtek", "/nodes/nobody": "That did not work", "/elsewhere": "no page",
	}
	if got := v.Run(`[...document.querySelectorAll(".choice a")].map(a => a.getAttribute("href")).join(" ")`); got != "/? /?by=room /? /?colour=version" {
		t.Errorf("links of the map: %s", got)
	}
	v.Open("/boots")
	storm := v.Run(`document.querySelector('a[href^="/storm"]').getAttribute("href")`)
	compare := v.Run(
		`"/compare?before=" + encodeURIComponent(document.getElementById("before").options[1].value) + "&after=" +
		encodeURIComponent(document.getElementById("after").options[0].value)`,
	)
	pages[storm], pages[compare] = "One clock", "most of it in"
	order := []string{}
	for p := range pages {
		order = append(order, p)
	}
	slices.Sort(order)
	for _, path := range order {
		v.Open(path)
		if got := v.Run("document.body.textContent"); !strings.Contains(got, pages[path]) {
			t.Errorf("%s does not say %q but\n%s", path, pages[path], got)
		}
		v.Accessible(path)
		v.Window(1280, 800, true)
		v.Accessible(path + " in the dark")
		v.Fits(path)
		v.Window(390, 844, true)
		v.Fits(path + " on a phone")
		v.Window(1280, 800, false)
		for _, p := range v.Problems() {
			if !strings.Contains(p, "404") { // pages that do not exist, on purpose
				t.Errorf("%s: %s", path, p)
			}
		}
		v.Quiet(path)
	}
	for _, p := range [][2]string{{"fleet", "/"}, {"boot", "/boots/" + string(boot)}, {"node", "/nodes/pc001"},
		{"boots", "/boots?by=version"}, {"storm", storm}, {"compare", compare}, {"images", "/images"},
		{"rollouts", "/rollouts"}, {"rollout", "/rollouts/default-1"}, {"swarm", "/swarm"}, {"health", "/health"}} {
		v.Window(1280, 800, false)
		v.Open(p[1])
		v.Until(`!document.body.dataset.live || document.getElementById("pulse").textContent === "live"`)
		v.Keep(p[0])
		v.looksAsEver(p[0])
		v.Window(1280, 800, true)
		v.Keep(p[0] + "-dark")
		v.looksAsEver(p[0] + "-dark")
		v.Window(390, 844, false)
		v.Keep(p[0] + "-phone")
		v.looksAsEver(p[0] + "-phone")
	}
	for _, dark := range []bool{false, true} {
		v.Window(1280, 800, dark)
		v.Open(storm)
		v.Run(`document.getElementById("feed").scrollIntoView(), 0`)
		name := map[bool]string{false: "feed", true: "feed-dark"}[dark]
		v.Keep(name)
		v.looksAsEver(name)
	}
}

// TestDashboardIsLive: a boot appears on the open map without a reload, an action changes a node, and after a restart
// of the server the page goes on with the same session.
func TestDashboardIsLive(t *testing.T) {
	s, base, token := startDashboard(t)
	s.addImage()
	r := readRecorded(t)
	s.node(1).replay(r, trace.Booted)
	v := startBrowser(t, base)
	v.Login(token)
	tile := `(document.getElementById("n-node%03d") || {className: ""}).className`
	v.Until(fmt.Sprintf(tile, 1) + `.includes("booted")`)
	v.Run(`window.sameDocument = true`)
	s.node(2).replay(r, trace.Manifest)
	v.Until(fmt.Sprintf(tile, 2) + fmt.Sprintf(`.includes("booting p%d")`, trace.Rank(trace.Manifest)))
	s.node(2).replay(r, trace.Booted)
	v.Until(fmt.Sprintf(tile, 2) + `.includes("booted")`)
	v.Until(`document.querySelector('[data-count="booted"]').textContent === "2"`)
	s.restart()
	s.node(2).replay(r, trace.Register)
	v.Until(fmt.Sprintf(tile, 2) + `.includes("booting")`)
	v.Until(`document.getElementById("pulse").textContent === "live"`)
	if v.Run(`window.sameDocument`) != "true" {
		t.Error("the page was loaded again")
	}
	v.Problems() // the connection that was lost, among them
	group := "lab"
	if _, err := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile)).CreateGroup(t.Context(),
		fleet.Group{Name: group, Image: "lab", Follow: true}); err != nil {
		t.Fatal(err)
	}
	v.Open("/nodes/node001")
	v.Run(`document.getElementById("group").value = "lab"; document.getElementById("group").form.requestSubmit()`)
	v.Arrived()
	n, err := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile)).Node(t.Context(), "node001")
	if err != nil || n.Group != group {
		t.Errorf("node001 is in group %q, %v", n.Group, err)
	}
	v.Quiet("after the restart")
}

// TestDashboardDoor: without a session nothing is shown; a session ends with its token; requests that another site
// makes a browser send do nothing.
func TestDashboardDoor(t *testing.T) {
	s, base, token := startDashboard(t)
	s.addImage()
	s.node(1).replay(readRecorded(t), trace.Booted)
	for _, path := range []string{"/", "/nodes/node001", "/boots", "/live?fleet=1", "/live", "/images", "/health"} {
		if got := ask(t, "GET", base+path, "", nil); got.status != 303 && got.status != 401 ||
			strings.Contains(got.body, "booted") {
			t.Errorf("%s without a session: %d %s", path, got.status, got.body)
		}
	}
	form := []byte("to=%2Fboots&token=" + token)
	in := ask(t, "POST", base+"/login", "", form)
	cookie, rest, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
	if in.status != 303 || in.header.Get("Location") != "/boots" || !strings.Contains(rest, "HttpOnly") ||
		!strings.Contains(rest, "SameSite=Strict") {
		t.Fatalf("login: %d %v", in.status, in.header)
	}
	if got := ask(t, "POST", base+"/login", "", []byte("to=//evil.example/&token="+token)); got.header.Get(
		"Location",
	) != "/" {
		t.Errorf("login sends to %s", got.header.Get("Location"))
	}
	if got := ask(t, "GET", base+"/nodes/node001", cookie, nil); got.status != 200 {
		t.Errorf("with a session: %d", got.status)
	}
	if got := ask(t, "GET", base+"/nodes/node001", cookie[:len(cookie)-4]+"AAAA", nil); got.status == 200 {
		t.Error("a changed cookie is a session")
	}
	if got := ask(t, "POST", base+"/nodes/node001/group", cookie, []byte("group=default")); got.status != 409 {
		t.Errorf("an action without the form's token: %d", got.status)
	}
	if got := ask(t, "POST", base+"/nodes/node001/group", cookie, []byte("group=default"), "Sec-Fetch-Site",
		"cross-site"); got.status != 403 {
		t.Errorf("an action from another site: %d", got.status)
	}
	if got := ask(t, "GET", base+"/login", "", nil, "Host", "evil.example"); got.status != 421 {
		t.Errorf("under another name: %d", got.status)
	}
	if got := ask(t, "GET", base+"/login", "", nil); !strings.Contains(
		got.header.Get("Content-Security-Policy"),
		"default-src 'none'",
	) {
		t.Errorf("policy: %s", got.header.Get("Content-Security-Policy"))
	}
	s.clock.add(13 * time.Hour)
	if got := ask(t, "GET", base+"/nodes/node001", cookie, nil); got.status == 200 {
		t.Error("a session of yesterday is good")
	}
	s.clock.add(-13 * time.Hour)
	s.update(func(tx *registry.Tx) error { return tx.DeleteToken("desk") })
	if got := ask(t, "GET", base+"/nodes/node001", cookie, nil); got.status == 200 {
		t.Error("the session outlives its token")
	}
}
