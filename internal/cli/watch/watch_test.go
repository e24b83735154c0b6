package watch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/terminal"
	"pando/internal/testkit"
	"pando/internal/trace"
)

func watchedNode(
	name string,
	state trace.State,
	stage trace.Stage,
	took time.Duration,
	bytes map[string]int64,
) api.Node {
	n := api.Node{Node: fleet.Node{Name: name, State: fleet.Adopted}}
	if state != "" {
		n.Boot = &api.Boot{State: state, Stage: stage, Started: zero, Elapsed: took, Bytes: bytes}
	}
	return n
}

func someNodes() []api.Node {
	failed := watchedNode("pc003", trace.Failed, trace.Manifest, 9*time.Second, nil)
	failed.Boot.Failure = "fetch manifest: GET http://10.0.0.1:8480/m/0123: 404 Not Found"
	return []api.Node{
		watchedNode(
			"pc001",
			trace.Up,
			trace.Booted,
			15*time.Second,
			map[string]int64{"k": 14_200_000, "server": 33_100_000},
		),
		watchedNode(
			"pc002",
			trace.Booting,
			trace.Root,
			12*time.Second,
			map[string]int64{"k": 14_200_000, "server": 2_000_000},
		),
		failed,
		watchedNode("pc004", "", "", 0, nil),
		watchedNode("pc005", trace.Down, trace.Shutdown, 14*time.Second, nil),
		{Node: fleet.Node{Name: "mac-525400000009", State: fleet.Discovered}},
	}
}

// TestWatchTable: the table at 80 columns, and on a wide terminal.
func TestWatchTable(t *testing.T) {
	v := watchView{nodes: someNodes(), now: zero.Add(time.Minute)}
	var b strings.Builder
	for _, width := range []int{80, 120} {
		fmt.Fprintf(
			&b,
			"%d columns\n%s",
			width,
			strings.NewReplacer("\x1b[K", "", "\r", "").Replace(v.render(width, 24)),
		)
	}
	v.lost, v.read = &api.UnreachableError{Server: "/var/lib/pando/pando.sock"}, zero.Add(50*time.Second)
	fmt.Fprintf(&b, "without a server\n%s", strings.NewReplacer("\x1b[K", "", "\r", "").Replace(v.render(80, 24)))
	testkit.Golden(t, *update, "watch.txt", b.String())
	v.lost = nil
	for line := range strings.Lines(strings.NewReplacer("\x1b[K", "", "\r\n", "\n").Replace(v.render(80, 24))) {
		if len([]rune(strings.TrimSuffix(line, "\n"))) > 80 {
			t.Errorf("line is wider than 80 columns: %q", line)
		}
	}
}

// TestWatchTableIsBounded: more nodes than lines, and the line that says so is the last one.
func TestWatchTableIsBounded(t *testing.T) {
	var nodes []api.Node
	for i := range 300 {
		nodes = append(nodes, watchedNode(fmt.Sprintf("pc%03d", i), trace.Up, trace.Booted, time.Second, nil))
	}
	nodes = append(nodes, watchedNode("late", trace.Failed, trace.Link, time.Second, nil))
	text := watchView{nodes: nodes, now: zero}.render(80, 24)
	if n := strings.Count(text, "\n"); n > 23 {
		t.Errorf("%d lines on a terminal of 24", n)
	}
	lines := strings.Split(strings.ReplaceAll(text, terminal.ClearLine, ""), "\n")
	if !strings.HasPrefix(lines[2], "late") || !strings.Contains(text, "... and 282 more") {
		t.Errorf("what failed is not first, or the rest is not counted:\n%s", text)
	}
}

func TestTrack(t *testing.T) {
	for _, k := range []struct {
		state trace.State
		stage trace.Stage
		want  string
	}{
		{trace.Booting, trace.DHCP, ">..............."}, {trace.Booting, trace.SwitchRoot, "##############>."},
		{trace.Failed, trace.Init, "#####!.........."}, {trace.Up, trace.Booted, "################"},
	} {
		if got := progressTrack(&api.Boot{State: k.state, Stage: k.stage}); got != k.want {
			t.Errorf("%s %s: %s, want %s", k.state, k.stage, got, k.want)
		}
	}
	if len(trace.Stages()) != trackWidth+1 {
		t.Errorf("the track has %d columns, a boot %d stages up to booted", trackWidth, len(trace.Stages())-1)
	}
}
