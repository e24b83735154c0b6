package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/trace"
)

// TestBootDetail: a boot is shown with its stages, and systemd's figures are on the same time scale.
func TestBootDetail(t *testing.T) {
	s := startSite(t)
	_, version := s.addImage()
	c := operatorOf(t, s)
	n := s.node(1)
	cfg := n.load()
	session := n.register(cfg).Session
	report := api.ReportRequest{Boot: cfg.Boot, Uptime: 9 * time.Second, Events: []trace.Event{
		{Stage: trace.Init, Kind: trace.Begin, Attrs: map[string]string{trace.AttrKernel: "2s"}},
		{Stage: trace.Init, Kind: trace.End, Offset: 100 * time.Millisecond},
		{Stage: trace.Root, Kind: trace.Begin, Offset: 3 * time.Second},
		{Stage: trace.Root, Kind: trace.End, Offset: 4 * time.Second},
		{Stage: trace.Booted, Kind: trace.End, Offset: 8 * time.Second, Bytes: map[string]int64{"server": 1000}},
	}, Status: &api.NodeStatus{Version: version,
		Systemd: &api.Systemd{Userspace: 6 * time.Second, Finish: 10 * time.Second, State: "running"}}}
	if e := n.post("/v1/node/events", "Bearer "+session, report, nil); e != nil {
		t.Fatal(e)
	}
	b, err := c.NodeBoot(t.Context(), "node001")
	if err != nil {
		t.Fatal(err)
	}
	if b.State != trace.Up || b.Stage != trace.Booted || b.Systemd == nil || b.Systemd.State != "running" ||
		b.ID != cfg.Boot {
		t.Errorf("boot is %+v", b.Boot)
	}
	start := map[trace.Stage]time.Duration{}
	for _, step := range b.Steps {
		start[step.Stage] = step.Start
	}
	if start[trace.Root]-start[trace.Init] != 3*time.Second || start[trace.Init]-b.SystemdStart != 2*time.Second {
		t.Errorf("steps start at %v, systemd at %v", start, b.SystemdStart)
	}
	view, err := c.Node(t.Context(), "node001")
	if err != nil || view.Running != version || view.Desired != version || view.Drift ||
		view.Hardware.Vendor != "QEMU" {
		t.Errorf("node is %+v, %v", view, err)
	}
	st, err := c.Status(t.Context())
	if err != nil || st.Nodes["booted"] != 1 || st.Bytes["server"] != 1000 {
		t.Errorf("status is %+v, %v", st, err)
	}
}

func TestBootNotFound(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	crew(t, c, 1)
	_, err := c.NodeBoot(t.Context(), "pc01")
	wantCode(t, err, api.NotFound, "has not booted")
	_, err = c.NodeBoot(t.Context(), "pc02")
	wantCode(t, err, api.NotFound, "pc02")
	_, err = c.Boot(t.Context(), "0123456789abcdef")
	wantCode(t, err, api.NotFound, "0123456789abcdef")
	if boots, err := c.Boots(t.Context(), "", 0); err != nil || boots == nil || len(boots) != 0 {
		t.Errorf("%v, %v", boots, err)
	}
}

func TestEventsPage(t *testing.T) {
	s := startSite(t)
	c := operatorOf(t, s)
	for range 5 {
		if _, err := s.registry.Append(t.Context(),
			trace.Event{Time: s.now(), Stage: trace.DHCP, Kind: trace.Info}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := c.Events(t.Context(), 2, 2)
	if err != nil || len(l.Events) != 2 || l.Events[0].Seq != 3 || l.Last != 5 {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err = c.Events(t.Context(), -1, 1); err != nil || len(l.Events) != 1 || l.Events[0].Seq != 5 {
		t.Errorf("the newest: %+v, %v", l, err)
	}
}

// TestHostileRequests: a request that is not valid is refused with a reason, and changes nothing.
func TestHostileRequests(t *testing.T) {
	s := startSite(t)
	h := s.socketRoutes()
	for _, k := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"PATCH", "/v1/nodes", `{"select":"@all","grup":"x"}`, 400, "grup"},
		{"PATCH", "/v1/nodes", `{"select":"@all"} {}`, 400, "more than one"},
		{"PATCH", "/v1/nodes", `[]`, 400, "request body"},
		{"PATCH", "/v1/nodes", ``, 400, "request body"},
		{"PATCH", "/v1/nodes", `{"select":"` + strings.Repeat("x", 2<<20) + `"}`, 400, "too large"},
		{"POST", "/v1/nodes", `{"name":"a","macs":["nonsense"]}`, 400, "MAC"},
		{"GET", "/v1/boots?limit=many", ``, 400, "many"},
		{"GET", "/v1/nodes?select=%00", ``, 400, ""},
		{"GET", "/v1/nope", ``, 404, "no such request"},
		{"PUT", "/v1/status", ``, 404, "no such request"},
		{"PUT", "/v1/policy", `{"adoption":"maybe","naming":"pc[001-]"}`, 400, "maybe"},
		{"PUT", "/v1/policy", `{"adoption":"open","naming":"pc"}`, 400, "naming rule"},
		{"POST", "/v1/tokens", `{"name":"a","ttl":-1}`, 400, "negative"},
		{"PUT", "/v1/images/lab/tags/%2e%2e%2fx", `{"ref":"lab:latest"}`, 400, "tag name"},
		{"GET", "/v1/boots/..%2f..%2fetc", ``, 404, ""},
	} {
		req := httptest.NewRequest(k.method, k.path, strings.NewReader(k.body))
		res := httptest.NewRecorder()
		h.ServeHTTP(res, req)
		var e api.ErrorBody
		err := json.Unmarshal(res.Body.Bytes(), &e)
		if res.Code != k.status || err != nil || e.Error == nil || !strings.Contains(e.Error.Message, k.says) {
			t.Errorf("%s %s: %d %s (%v)", k.method, k.path, res.Code, res.Body, err)
		}
	}
	res := httptest.NewRecorder()
	h.ServeHTTP(res, httptest.NewRequest("GET", descriptionPath, nil))
	if res.Code != http.StatusOK || !json.Valid(res.Body.Bytes()) {
		t.Errorf("description: %d", res.Code)
	}
}

// TestRunningVersionDrifts: a node that runs another version than its group wants is shown so.
func TestRunningVersionDrifts(t *testing.T) {
	s := startSite(t)
	_, version := s.addImage()
	c := operatorOf(t, s)
	n := s.node(1)
	cfg := n.load()
	session := n.register(cfg).Session
	booted := []trace.Event{{Stage: trace.Booted, Kind: trace.End, Offset: time.Second}}
	if e := n.post("/v1/node/events", "Bearer "+session,
		api.ReportRequest{Boot: cfg.Boot, Uptime: time.Second, Events: booted}, nil); e != nil {
		t.Fatal(e)
	}
	_, next := s.addImage(func(m *image.Manifest) { m.CommandLine = []string{"next"} })
	view, err := c.Node(t.Context(), "node001")
	if err != nil || !view.Drift || view.Running != version || view.Desired != next {
		t.Errorf("running %s, desired %s, drift %v, %v", view.Running, view.Desired, view.Drift, err)
	}
	if _, err := c.SetNodes(t.Context(),
		api.NodeSet{Select: "node001", Version: ptr(fleet.Ref("lab@" + string(version)))}); err != nil {
		t.Fatal(err)
	}
	if view, err = c.Node(t.Context(), "node001"); err != nil || view.Drift {
		t.Errorf("an override that it runs already: %+v, %v", view, err)
	}
}
