package dashboard

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// upNode returns a node that has booted and was last seen a while ago.
func upNode(name string, lastSeen time.Duration) api.Node {
	return api.Node{
		Node:    fleet.Node{Name: name, State: fleet.Adopted, Group: "lab", Seen: noon.Add(-lastSeen)},
		Running: "sha256:aa",
		Desired: "sha256:aa",
		Boot: &api.Boot{
			ID:      "b1",
			State:   trace.Up,
			Stage:   trace.Booted,
			Started: noon.Add(-time.Hour),
			Updated: noon.Add(-time.Hour),
			Elapsed: 30 * time.Second,
		},
	}
}

// TestTileMoods: the mood of a node from the API's data and later events.
func TestTileMoods(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*api.Node)
		events []trace.Event
		want   mood
		class  string
	}{
		{"up", func(*api.Node) {}, nil, booted, "t booted"},
		{"drifts", func(n *api.Node) { n.Desired = "sha256:bb" }, nil, booted, "t booted drift"},
		{"silent", func(n *api.Node) { n.Boot.State = trace.Silent }, nil, silent, "t silent"},
		{"is heard of again", func(n *api.Node) { n.Boot.State = trace.Silent },
			[]trace.Event{{Boot: "b1", Time: noon, Stage: trace.Booted, Kind: trace.Info}}, booted, "t booted"},
		{"units failed", func(n *api.Node) { n.Boot.State = trace.Degraded },
			[]trace.Event{{Boot: "b1", Time: noon, Stage: trace.Booted, Kind: trace.Info}}, degraded, "t degraded"},
		{"discovered", func(n *api.Node) { n.State = fleet.Discovered }, nil, discovered, "t discovered"},
		{"never", func(n *api.Node) { n.Boot, n.Running = nil, "" }, nil, never, "t never"},
		{"boots again", func(*api.Node) {},
			[]trace.Event{{Boot: "b2", Time: noon, Stage: trace.Init, Kind: trace.End}}, booting, "t booting p5"},
		{"fails", func(*api.Node) {},
			[]trace.Event{{Boot: "b2", Time: noon, Stage: trace.Link, Kind: trace.Fail, Message: "no cable"}}, failed,
			"t failed p7"},
		{"mends", func(*api.Node) {},
			[]trace.Event{{Boot: "b2", Time: noon, Stage: trace.Link, Kind: trace.Fail},
				{Boot: "b2", Time: noon, Stage: trace.Link, Kind: trace.End}}, booting, "t booting p7"},
		{"late word of the boot before", func(*api.Node) {},
			[]trace.Event{{Boot: "b0", Time: noon.Add(-2 * time.Hour), Stage: trace.Link, Kind: trace.Fail}}, booted,
			"t booted"},
		{"goes down", func(*api.Node) {},
			[]trace.Event{{Boot: "b1", Time: noon, Stage: trace.Shutdown, Kind: trace.End}}, down, "t down"},
	} {
		n := upNode("pc001", time.Minute)
		c.change(&n)
		tl := newTile(n)
		for _, e := range c.events {
			tl.apply(e)
		}
		if tl.mood() != c.want || tl.class(nil) != c.class {
			t.Errorf("%s: %s, %q; want %s, %q", c.what, tl.mood(), tl.class(nil), c.want, c.class)
		}
	}
}

// TestAreas: the map is divided by groups or a label, machines to adopt come first, and tiles show the part of the name
// that differs.
func TestAreas(t *testing.T) {
	var tiles []tile
	for i := range 3 {
		n := upNode(fmt.Sprintf("pc-b12-%03d", i+1), 0)
		n.Labels = map[string]string{"room": fmt.Sprint("b", i%2)}
		tiles = append(tiles, newTile(n))
	}
	unknown := upNode("mac-525400000028", 0)
	unknown.State = fleet.Discovered
	tiles = append(tiles, newTile(unknown), newTile(upNode("srv1", 0)))
	text := func(query string) string {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		s := ""
		for _, a := range mapQuery(q).areas(tiles, map[string]string{"lab": "note"}) {
			s += a.Name + "(" + a.Note + "):"
			for _, x := range a.Tiles {
				s += " " + x.Tag
			}
			s += "; "
		}
		return s
	}
	for query, want := range map[string]string{
		"":                                "waiting to be adopted(): 0028; lab(note): 001 002 003 srv1; ",
		"by=room":                         "waiting to be adopted(): 0028; b0(): 001 003; b1(): 002; elsewhere(): 1; ",
		"select=pc-b12-[001-002]":         "lab(note): 001 002; ",
		"select=pc-b12-[001":              "",
		"select=room%3Db1&colour=version": "lab(note): 002; ",
	} {
		if got := text(query); got != want {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
}

// TestStorms: boots that began together are a storm, and its page says when the last one was up.
func TestStorms(t *testing.T) {
	var past []api.PastBoot
	for i := range 12 {
		b := api.PastBoot{
			ID:      fleet.BootID(fmt.Sprint(i)),
			Node:    fmt.Sprint("pc", i),
			State:   trace.Up,
			Started: noon.Add(time.Duration(i) * time.Second),
			Elapsed: 40 * time.Second,
			Ends: map[trace.Stage]time.Duration{
				trace.DHCP:   time.Second,
				trace.Init:   9 * time.Second,
				trace.Booted: 40 * time.Second,
			},
			Bytes: map[string]int64{"server": 10, "peer": 30},
		}
		past = append([]api.PastBoot{b}, past...) // newest first
	}
	past[3].State, past[3].Ends = trace.Failed, nil
	past = append(past, api.PastBoot{Started: noon.Add(-time.Hour)})
	storms := stormsOf(past)
	if len(storms) != 1 || storms[0].Boots != 12 || storms[0].Failures != 1 || storms[0].Last != 51*time.Second ||
		storms[0].P50 != 40*time.Second {
		t.Fatalf("%+v", storms)
	}
	v := newStorm(oldestFirst(past[:12]))
	if len(v.Lines) != 12 || v.FromPeer != 0.75 || len(v.Parts) != 3 ||
		v.Lines[0].Cuts[2] != (stormCut{"image", newBar(9*time.Second, 31*time.Second, 51*time.Second)}) {
		t.Errorf("%+v", v)
	}
}

// TestWaterfall: bars leave no gap, an unfinished stage extends to the end of the scale, and events after the boot are
// left out.
func TestWaterfall(t *testing.T) {
	b := api.BootDetail{Boot: api.Boot{State: trace.Up, Elapsed: 20 * time.Second}, Steps: []api.Step{
		{
			Stage:    trace.DHCP,
			Duration: 2 * time.Second,
		}, {Stage: trace.Init, Start: 8 * time.Second},
		{Stage: trace.Root, Start: 9 * time.Second, Duration: time.Second},
		{
			Stage: trace.Booted,
			Start: 20 * time.Second,
		}, {Stage: "desktop", Start: 25 * time.Second}, {Stage: trace.Shutdown, Start: 5 * time.Hour}}}
	total := bootEnd(b, noon)
	rows := waterfall(b, total)
	if total != 25*time.Second || len(rows) != 5 || slowest(rows) != "booted" {
		t.Fatalf("%s, %+v, longest %s", total, rows, slowest(rows))
	}
	var sum time.Duration
	for _, r := range rows[:4] {
		if r.Start != sum {
			t.Errorf("%s starts at %s, not %s", r.Name, r.Start, sum)
		}
		sum += r.Took
	}
}

// TestWhy: what decides a node's next version, the reason with the highest priority first.
func TestWhy(t *testing.T) {
	groups := []api.Group{{Group: fleet.Group{Name: "lab", Image: "lab:stable", Follow: true}}}
	for _, c := range []struct {
		change func(*api.Node)
		want   string
	}{
		{func(*api.Node) {}, "group lab follows the tag lab:stable"},
		{func(n *api.Node) { n.Group = "hall" }, "group hall has no image"},
		{func(n *api.Node) { n.Version, n.Follow = "lab:v2", true }, "set for this node: follows lab:v2"},
		{func(n *api.Node) { n.Rollout = "r1" }, "rollout r1 has come to it"},
		{func(n *api.Node) { n.State = fleet.Discovered }, "nobody has adopted it: it is told to wait"},
	} {
		n := upNode("pc001", 0)
		c.change(&n)
		if got := why(n, groups); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestLocal: the login page redirects to no other site.
func TestLocal(t *testing.T) {
	for to, want := range map[string]string{"": "/", "/boots?by=class": "/boots?by=class", "//evil.example": "/",
		"https://evil.example/": "/",
		"/\\evil.example":       "/", "javascript:alert(1)": "/", "/a\nb": "/", "nodes": "/"} {
		if got := local(to); got != want {
			t.Errorf("%q: %q, want %q", to, got, want)
		}
	}
}
