package server

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/server/access"
	"pando/internal/trace"
)

// TestEachRouteHasAReach: somebody must decide for a new route what a token for some groups may do with it.
func TestEachRouteHasAReach(t *testing.T) {
	in := map[string]int{}
	for _, r := range access.KnownRoutes() {
		in[r]++
	}
	for _, r := range (&Server{}).operatorList() {
		route := r.Method + " " + r.Path
		if in[route] != 1 {
			t.Errorf("%s is in %d classes of reach.go, not in one", route, in[route])
		}
		delete(in, route)
	}
	for r := range in {
		t.Errorf("reach.go has %s, and there is no such route", r)
	}
}

// rooms is a site with two groups, each with a running node and an aborted rollout, and an operator's token for the
// first group.
type rooms struct {
	*site
	secret     string
	mine, its  fleet.BootID
	v1, v2     fleet.Digest
	everything string // a token for the whole site
}

// hidden is the prefix of the names of the other group, its node and more. No answer to the token may contain it; it is
// too long to occur in a random key.
const hidden = "unseen"

func startRooms(t *testing.T) *rooms {
	t.Helper()
	s := &rooms{site: startSite(t, func(c *Config) { c.Dashboard = "127.0.0.1:0" })}
	ctx := t.Context()
	s.policy(fleet.Open)
	_, s.v1 = s.addImage(func(m *image.Manifest) { m.CommandLine = []string{"first"} })
	here := api.OverHandler(s.socketRoutes())
	r := readRecorded(t)
	for i, g := range []string{"mine", hidden + "room"} {
		if _, err := here.CreateGroup(ctx, fleet.Group{Name: g, Image: fleet.Ref("lab@" + string(s.v1))}); err != nil {
			t.Fatal(err)
		}
		n, name := s.node(byte(i+1)), []string{"own", hidden + "node"}[i]
		if _, err := here.CreateNode(ctx, api.NodeCreate{Name: name, Group: g, MACs: []fleet.MAC{n.mac}}); err != nil {
			t.Fatal(err)
		}
		*[]*fleet.BootID{&s.mine, &s.its}[i] = n.replay(r, trace.Booted)
	}
	_, s.v2 = s.addImage()
	for i, g := range []string{"mine", hidden + "room"} {
		name := []string{"own", hidden + "node"}[i]
		if _, err := here.StartRollout(ctx,
			api.RolloutStart{Group: g, Image: fleet.Ref("lab@" + string(s.v2))}); err != nil {
			t.Fatal(err)
		}
		if _, err := here.AbortRollout(ctx, g+"-1"); err != nil {
			t.Fatal(err)
		}
		of := fleet.Scope{Kind: fleet.ForGroup, Name: g}
		if _, err := here.SetConfigFile(ctx,
			api.ConfigSet{ConfigFile: fleet.ConfigFile{For: of, Path: "/etc/" + g, Content: []byte(g)}}); err != nil {
			t.Fatal(err)
		}
		if _, err := here.SetRecording(ctx, name, api.RecordingSet{Until: "ready"}); err != nil {
			t.Fatal(err)
		}
	}
	s.node(3).load() // discovered by its packets, in the default group
	if err := s.faultsAfresh(ctx); err != nil {
		t.Fatal(err)
	}
	for to, groups := range map[*string][]string{&s.secret: {"mine"}, &s.everything: nil} {
		made, err := here.CreateToken(ctx, api.TokenCreate{Name: fmt.Sprint("t", len(groups)), Groups: groups})
		if err != nil {
			t.Fatal(err)
		}
		if *to, _, err = api.ParseToken(made.Secret); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// faultsAfresh makes the next request for faults search again.
func (s *site) faultsAfresh(context.Context) error {
	s.faults.Forget()
	return nil
}

// do sends a request to the control port.
func (s *rooms) do(secret, method, path, body string) (status int, answer string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	req := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.controlRoutes().ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// filled returns the path of a route with names of the token's group, or of the other.
func (s *rooms) filled(path string, its bool) string {
	pick := func(own, other string) string {
		if its {
			return other
		}
		return own
	}
	name := pick("own", hidden+"node")
	switch {
	case strings.HasPrefix(path, "/v1/groups/"):
		name = pick("mine", hidden+"room")
	case strings.HasPrefix(path, "/v1/images/"):
		name = "lab"
	}
	id := pick("mine-1", hidden+"room-1")
	if strings.HasPrefix(path, "/v1/boots/") {
		id = pick(string(s.mine), string(s.its))
	}
	return strings.NewReplacer("{name}", name, "{id}", id, "{digest}", string(s.v1), "{version}", string(s.v1),
		"{tag}", "latest").
		Replace(path)
}

// attempts are further paths and bodies that ask for the other group, by route.
var attempts = map[string][]string{
	"GET /v1/nodes": {"?select=unseennode", "?select=@unseenroom", "?select=52:54:00:00:00:02", "?select=*"},
	"POST /v1/nodes": {
		`{"name":"new","group":"unseenroom","macs":["52:54:00:00:00:77"]}`,
		`{"name":"new","group":"default","macs":["52:54:00:00:00:77"]}`,
		`{"name":"new","group":"mine","macs":["52:54:00:00:00:02"]}`,
		`{"name":"new","group":"mine","macs":["52:54:00:00:00:03"]}`,
		`{"name":"new","macs":["52:54:00:00:00:77"]}`,
	},
	"PATCH /v1/nodes": {
		`{"select":"unseennode","labels":{"a":"b"}}`,
		`{"select":"@unseenroom","labels":{"a":"b"}}`,
		`{"select":"own","group":"unseenroom"}`,
		`{"select":"own","group":"default"}`,
		`{"select":"own","add_macs":["52:54:00:00:00:02"]}`,
		`{"select":"own,unseennode","kernel_args":["x"]}`,
		`{"select":"52:54:00:00:00:02","group":"mine"}`,
		`{"select":"unseennode","group":"mine"}`,
	},
	"DELETE /v1/nodes": {"?select=unseennode", "?select=@unseenroom", "?select=own,unseennode"},
	"POST /v1/nodes/adopt": {
		`{"select":"unseennode","group":"mine"}`,
		`{"select":"52:54:00:00:00:03","group":"mine"}`,
	},
	"POST /v1/nodes/sync":            {`{"select":"unseennode"}`, `{"select":"@unseenroom"}`},
	"POST /v1/nodes/approve":         {`{"select":"unseennode"}`},
	"POST /v1/nodes/reset":           {`{"select":"unseennode"}`},
	"POST /v1/nodes/{name}/cache":    {`{"device":"/dev/vda","erase":"/dev/vda"}`},
	"POST /v1/nodes/{name}/power":    {`{"action":"reboot"}`, `{"action":"off"}`},
	"PUT /v1/nodes/{name}/password":  {`{"password":"taken over"}`},
	"PUT /v1/nodes/{name}/recording": {`{"until":"other"}`},
	"GET /v1/power":                  {"?select=unseennode"},
	"GET /v1/diff":                   {"?select=unseennode"},
	"GET /v1/sd":                     {"?select=@unseenroom"},
	"PATCH /v1/groups/{name}":        {`{"image":"lab"}`, `{"kernel_args":["x"]}`},
	"PUT /v1/groups/{name}/password": {`{"password":"taken over"}`},
	"GET /v1/rollouts":               {"?group=unseenroom"},
	"POST /v1/rollouts":              {`{"group":"unseenroom","image":"lab"}`, `{"group":"default","image":"lab"}`},
	"POST /v1/rollouts/{id}/pause":   {`{}`},
	"POST /v1/rollouts/{id}/resume":  {`{}`},
	"POST /v1/rollouts/{id}/abort":   {`{}`},
	"GET /v1/boots":                  {"?select=unseennode", "?select=@unseenroom"},
	"GET /v1/boots/failed":           {"?select=unseennode"},
	"GET /v1/history":                {"?select=unseennode", "?group=unseenroom"},
	"GET /v1/history/figures":        {"?by=node", "?by=group&group=unseenroom"},
	"GET /v1/history/compare":        {"?before=lab&after=lab&group=unseenroom"},
	"GET /v1/events":                 {"?after=0&limit=10000", "?after=-1&limit=10000"},
	"GET /v1/events/stream":          {"?after=0"},
	"GET /v1/config/file":            {"?for=group:unseenroom&path=/etc/unseenroom"},
	"PUT /v1/config": {
		`{"for":"group:unseenroom","path":"/etc/x","content":"eA=="}`,
		`{"for":"node:unseennode","path":"/etc/x","content":"eA=="}`,
		`{"for":"all","path":"/etc/x","content":"eA=="}`,
	},
	"DELETE /v1/config":              {`{"for":"group:unseenroom","path":"/etc/unseenroom"}`},
	"GET /v1/state":                  {"?select=unseennode"},
	"POST /v1/state/{name}/snapshot": {`{"snapshot":"a"}`},
	"POST /v1/state/{name}/reset":    {`{}`},
	"POST /v1/state/{name}/copy":     {`{"from":"own"}`},
	"DELETE /v1/state/{name}/orders": {""},
}

// TestTokenOfOneGroup tries to reach another group by every route. No answer shows the other group, and afterwards it
// has not changed.
func TestTokenOfOneGroup(t *testing.T) {
	s := startRooms(t)
	before := s.other()
	for _, r := range (&Server{}).operatorList() {
		route := r.Method + " " + r.Path
		site, own := access.Reaches()[route] == access.WholeSite, access.Reaches()[route] == access.OwnGroups
		tries := attempts[route]
		if own && r.Method != http.MethodGet && len(tries) == 0 && strings.Contains("POST PUT PATCH", r.Method) {
			t.Errorf("%s: there is no attempt to change the other group", route)
		}
		for _, try := range append(tries, "") {
			path, body := s.filled(r.Path, true), try
			if strings.HasPrefix(try, "?") {
				path, body = path+try, ""
			}
			if route == "GET /v1/events/stream" {
				s.listens(path)
				continue
			}
			status, answer := s.do(s.secret, r.Method, path, body)
			changed := r.Method != http.MethodGet && status < 300 && route != "POST /v1/store/missing"
			one := strings.Contains(r.Path, "{name}") && !strings.HasPrefix(r.Path, "/v1/images/") ||
				strings.Contains(r.Path, "{id}")
			switch {
			case site && status != http.StatusForbidden:
				t.Errorf("%s %s %s: %d, and it is about the whole site: %s", r.Method, path, body, status, answer)
			case changed:
				t.Errorf("%s %s %s: %d: %s", r.Method, path, body, status, answer)
			case own && one && status < 300 && !strings.HasPrefix(r.Path, "/v1/classes"):
				t.Errorf("%s %s: %d: %s", r.Method, path, status, answer)
			case !site && strings.Contains(strings.ReplaceAll(strings.ReplaceAll(answer, path, ""),
				named(path, body, answer), ""), hidden) ||
				strings.Contains(answer, string(s.its)) && !strings.Contains(path, string(s.its)):
				t.Errorf("%s %s %s tells of the other group: %s", r.Method, path, body, answer)
			}
		}
	}
	if after := s.other(); after != before {
		t.Errorf("the other group was\n%s\nand is\n%s", before, after)
	}
	if got, _ := s.do(s.secret, "GET", "/metrics", ""); got != http.StatusForbidden {
		t.Errorf("metrics of the whole site: %d", got)
	}
}

// named returns the requested name if the answer says that it does not exist.
func named(path, body, answer string) string {
	if !strings.Contains(answer, `"not_found"`) && !strings.Contains(answer, `"forbidden"`) {
		return "\x00"
	}
	for _, name := range []string{hidden + "node", hidden + "room-1", hidden + "room"} {
		if strings.Contains(path+body, name) && strings.Contains(answer, name) {
			return name
		}
	}
	return "\x00"
}

// other returns all that a caller without limits sees of the other group and of what groups share.
func (s *rooms) other() string {
	s.t.Helper()
	var out strings.Builder
	for _, path := range []string{"/v1/fleet", "/v1/nodes/unseennode/config", "/v1/rollouts/unseenroom-1",
		"/v1/recordings", "/v1/power?select=unseennode", "/v1/images", "/v1/classes",
		"/v1/policy", "/v1/keys", "/v1/secrets", "/v1/boots/" + string(s.its)} {
		status, answer := s.do(s.everything, "GET", path, "")
		if status != http.StatusOK {
			s.t.Fatalf("%s: %d %s", path, status, answer)
		}
		out.WriteString(answer)
	}
	return out.String()
}

// listens follows the stream of events for a moment: it has events of the own node, and none of the other.
func (s *rooms) listens(path string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	server := httptest.NewServer(s.controlRoutes())
	defer server.Close()
	req, err := http.NewRequestWithContext(ctx, "GET", server.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.secret)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	own := 0
	time.AfterFunc(500*time.Millisecond, cancel)
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), hidden) || strings.Contains(lines.Text(), string(s.its)) {
			s.t.Errorf("the stream has %s", lines.Text())
		}
		if strings.Contains(lines.Text(), string(s.mine)) {
			own++
		}
	}
	if strings.Contains(path, "after=0") && own == 0 {
		s.t.Error("the stream has nothing of the own node")
	}
}

// TestTokenOfOneGroupWorks: in its own group the token may do what an operator may do.
func TestTokenOfOneGroupWorks(t *testing.T) {
	s := startRooms(t)
	for _, x := range []struct {
		method, path, body, want string
	}{
		{"GET", "/v1/status", "", `"adopted":1`},
		{"GET", "/v1/nodes", "", `"own"`},
		{"GET", "/v1/nodes/own", "", string(s.mine)},
		{"GET", "/v1/nodes/own/boot", "", string(s.mine)},
		{"GET", "/v1/boots", "", string(s.mine)},
		{"GET", "/v1/boots/" + string(s.mine), "", string(s.mine)},
		{"GET", "/v1/history", "", `"boots":[`},
		{"GET", "/v1/events?after=0&limit=10000", "", string(s.mine)},
		{"GET", "/v1/groups", "", `"mine"`},
		{"GET", "/v1/images", "", `"lab"`},
		{"GET", "/v1/rollouts", "", `"mine-1"`},
		{"GET", "/v1/config", "", `"/etc/mine"`},
		{"GET", "/v1/recordings", "", `"own"`},
		{"GET", "/v1/sd", "", `"own"`},
		{"PATCH", "/v1/nodes", `{"select":"own","labels":{"seat":"3"}}`, "seat"},
		{"PATCH", "/v1/nodes", `{"select":"@mine","name":"own"}`, `"own"`},
		{"POST", "/v1/nodes", `{"name":"next","group":"mine","macs":["52:54:00:00:00:78"]}`, "next"},
		{"PATCH", "/v1/groups/mine", `{"kernel_args":["quiet"]}`, `"own"`},
		{"PUT", "/v1/config", `{"for":"group:mine","path":"/etc/motd","content":"eA=="}`, `"own"`},
		{"PUT", "/v1/config", `{"for":"node:own","path":"/etc/motd","content":"eA=="}`, `"own"`},
		{"DELETE", "/v1/config", `{"for":"node:own","path":"/etc/motd"}`, "deleted"},
		{"POST", "/v1/rollouts", `{"group":"mine","image":"lab@` + string(s.v2) + `"}`, `"mine-2"`},
		{"POST", "/v1/rollouts/mine-2/abort", `{}`, "aborted"},
		{"DELETE", "/v1/nodes?select=next", "", "deleted"},
	} {
		if status, answer := s.do(s.secret, x.method, x.path, x.body); status > 299 ||
			!strings.Contains(answer, x.want) ||
			strings.Contains(answer, hidden) {
			t.Errorf("%s %s %s: %d, without %s: %s", x.method, x.path, x.body, status, x.want, answer)
		}
	}
}

// TestTokensForGroupsAreChecked: a token's groups must exist, an admin's token cannot have groups, and the dashboard
// refuses tokens that have groups.
func TestTokensForGroupsAreChecked(t *testing.T) {
	s := startRooms(t)
	here := api.OverHandler(s.socketRoutes())
	for _, x := range []struct {
		ask  api.TokenCreate
		code api.Code
	}{{api.TokenCreate{Name: "a", Groups: []string{"nowhere"}}, api.NotFound},
		{api.TokenCreate{Name: "b", Role: fleet.Admin, Groups: []string{"mine"}}, api.BadRequest}} {
		if _, err := here.CreateToken(t.Context(), x.ask); !api.IsCode(err, x.code) {
			t.Errorf("%+v: %v", x.ask, err)
		}
	}
	all, err := here.Tokens(t.Context())
	if i := slices.IndexFunc(all,
		func(k api.Token) bool { return slices.Equal(k.Groups, []string{"mine"}) }); err != nil ||
		i < 0 {
		t.Errorf("tokens: %+v %v", all, err)
	}
	base := fmt.Sprintf("http://127.0.0.1:%d", s.dashboardPort)
	got := ask(t, "POST", base+"/login", "", []byte("token="+api.FormatToken(s.secret, s.keys.ServerPublic())))
	if got.header.Get("Set-Cookie") != "" || !strings.Contains(got.body, "is for @mine only") {
		t.Errorf("the dashboard takes it: %d %s", got.status, got.body)
	}
}
