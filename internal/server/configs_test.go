package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
)

// setConfig declares a config file through the operator's API.
func setConfig(t *testing.T, c *api.Client, of, path, content string) api.ConfigChange {
	t.Helper()
	scope, err := fleet.ParseScope(of)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := c.SetConfigFile(
		t.Context(),
		api.ConfigSet{ConfigFile: fleet.ConfigFile{For: scope, Path: path, Content: []byte(content)}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

// assigned returns the assignment in the answer to a registration.
func assigned(t testing.TB, resp api.RegisterResponse) fleet.Assignment {
	t.Helper()
	var a fleet.Assignment
	if err := json.Unmarshal(resp.Assignment, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// content returns the content of a file in a list, "" if it is not there.
func content(files []fleet.File, path string) string {
	if i := slices.IndexFunc(files, func(f fleet.File) bool { return f.Path == path }); i >= 0 {
		return string(files[i].Data)
	}
	return ""
}

// A boot gets its declared files, rendered with data of this boot. A file that cannot be rendered is reported, and the
// boot goes on.
func TestRegistrationBringsConfigFiles(t *testing.T) {
	s := startSite(t)
	s.addImage()
	c := operatorOf(t, s)
	n := s.node(1)
	cfg := n.load()
	setConfig(t, c, "all", "/etc/place", "{{.Name}} {{.IP}} {{join .Servers \" \"}}")
	setConfig(t, c, "node:node001", "/etc/hosts", "own\n")
	if ch := setConfig(t, c, "@default", "/etc/motd", "a\n{{.Labels.rack}}"); len(ch.Problems) != 1 ||
		len(ch.Nodes) != 1 {
		t.Errorf("a file that cannot be made: %+v", ch)
	}
	a := assigned(t, n.register(cfg))
	if got := content(a.Files, "/etc/place"); got != "node001 127.0.0.1 127.0.0.1" {
		t.Errorf("/etc/place is %q", got)
	}
	if got := content(a.Files, "/etc/hosts"); got != "own\n" {
		t.Errorf("/etc/hosts is %q", got)
	}
	if content(a.Files, "/etc/hostname") != "node001\n" {
		t.Error("what every node has is missing")
	}
	if len(a.Problems) != 1 ||
		!strings.Contains(a.Problems[0], "/etc/motd of group:default:2: {{.Labels.rack}}: the node has no rack") {
		t.Errorf("problems %q", a.Problems)
	}
	shown, err := c.NodeConfig(t.Context(), "node001")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range shown.Files {
		if f.Path == "/etc/place" && string(f.Content) != "node001 127.0.0.1 127.0.0.1" {
			t.Errorf("an operator is shown %q", f.Content)
		}
		if strings.Contains(string(f.Content), "PRIVATE KEY") {
			t.Errorf("an operator is shown what is secret in %s", f.Path)
		}
	}
}

// The total size of a node's files is limited: files above the limit are left out and reported.
func TestConfigFilesAreBounded(t *testing.T) {
	s := startSite(t)
	s.addImage()
	c := operatorOf(t, s)
	n := s.node(1)
	cfg := n.load()
	large := strings.Repeat("x", fleet.MaxConfigFile)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		setConfig(t, c, "all", "/etc/"+name, large)
	}
	a := assigned(t, n.register(cfg))
	if len(a.Problems) != 1 ||
		!strings.Contains(a.Problems[0], "/etc/e of all: with it the node would have more than 1048576 bytes") {
		t.Errorf("problems %q", a.Problems)
	}
	if content(a.Files, "/etc/d") != large || content(a.Files, "/etc/e") != "" {
		t.Error("not those that fit were sent")
	}
}

// A running node with old files syncs and is up to date then. A file that it could not put in place stays old.
func TestSyncNodes(t *testing.T) {
	s := startSite(t)
	s.addImage()
	c := operatorOf(t, s)
	n := s.node(1)
	cfg := n.load()
	setConfig(t, c, "all", "/etc/a", "one")
	setConfig(t, c, "all", "/etc/b", "one")
	session := "Bearer " + n.register(cfg).Session
	old := func() string {
		t.Helper()
		v, err := c.Node(t.Context(), "node001")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(v.ConfigOld, " ") + "|" + strings.Join(v.ConfigGone, " ")
	}
	if got := old(); got != "|" {
		t.Errorf("after hello: %s", got)
	}
	setConfig(t, c, "all", "/etc/a", "two")
	setConfig(t, c, "@default", "/etc/c", "two")
	scope := fleet.Scope{Kind: fleet.ForAll}
	if _, err := c.DeleteConfigFile(t.Context(), api.ConfigDelete{For: scope, Path: "/etc/b"}); err != nil {
		t.Fatal(err)
	}
	if got := old(); got != "/etc/a /etc/c|/etc/b" {
		t.Errorf("after changes: %s", got)
	}
	if e := n.post("/v1/node/config", "Bearer x", api.NodeConfigRequest{Boot: cfg.Boot}, nil); e == nil {
		t.Error("a stranger is given config files")
	}
	if e := n.post("/v1/node/config", "Boot "+cfg.Token, api.NodeConfigRequest{Boot: cfg.Boot}, nil); e == nil {
		t.Error("the boot's token is given config files")
	}
	if got := n.sync(c, cfg, session, true, ""); len(got.Files) != 2 || old() != "/etc/a /etc/c|/etc/b" {
		t.Errorf("a dry run: %+v, then %s", got, old())
	}
	if got := n.sync(c, cfg, session, false, "no such user"); got.Files[1].Error != "no such user" ||
		old() != "/etc/c|/etc/b" {
		t.Errorf("%+v, then %s", got, old())
	}
	if n.sync(c, cfg, session, false, ""); old() != "|/etc/b" {
		t.Errorf("then %s", old())
	}
	diff, err := c.DiffNodes(t.Context(), "node001")
	if err != nil || len(diff) != 1 || !slices.Equal(diff[0].ConfigGone, []string{"/etc/b"}) {
		t.Errorf("diff %+v, %v", diff, err)
	}
}

// sync plays one sync command, from the operator's request to the node's answer; one of its files fails.
func (n *node) sync(c *api.Client, cfg api.BootConfig, session string, dryRun bool, failing string) api.NodeSync {
	t := n.t
	t.Helper()
	done := make(chan []api.NodeSync, 1)
	go func() {
		l, err := c.SyncNodes(t.Context(), api.SyncRequest{Select: "node001", DryRun: dryRun})
		if err != nil {
			t.Error(err)
		}
		done <- l
	}()
	var got api.ReportResponse
	for got.Command == nil {
		if e := n.post("/v1/node/events", session, api.ReportRequest{Boot: cfg.Boot}, &got); e != nil {
			t.Fatal(e)
		}
	}
	if got.Command.Kind != api.SyncConfig || got.Command.DryRun != dryRun {
		t.Fatalf("errand %+v", got.Command)
	}
	var files api.NodeConfigResponse
	if e := n.post("/v1/node/config", session, api.NodeConfigRequest{Boot: cfg.Boot}, &files); e != nil {
		t.Fatal(e)
	}
	if content(files.Files, "/etc/a") != "two" || content(files.Files, "/etc/b") != "" {
		t.Errorf("it is given %+v", files.Files)
	}
	rep := api.NodeCommandReport{
		Boot:  cfg.Boot,
		ID:    got.Command.ID,
		Files: []api.SyncedFile{{Path: "/etc/a"}, {Path: "/etc/c", New: true, Error: failing}},
	}
	if e := n.post("/v1/node/errand", session, rep, nil); e != nil {
		t.Fatal(e)
	}
	if l := <-done; len(l) == 1 {
		return l[0]
	}
	t.Fatal("no node answered")
	return api.NodeSync{}
}
