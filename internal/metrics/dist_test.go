package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"pando/internal/fleet"
	"pando/internal/trace"
)

const dist = "../../dist"

// full returns the metrics of a site that has a value for every metric.
func full(t *testing.T) string {
	t.Helper()
	run := Run{"lab", "desk", "0123456789ab"}
	by := map[string]int{"lab": 1}
	s := site(
		Look{
			Nodes:    map[Standing]int{{run, "booted"}: 3},
			Drift:    by,
			Silent:   by,
			Degraded: by,
			Rollouts: map[string]int{"running": 1},
			Leases:   map[string]int{"active": 1},
			Registry: map[string]int64{"registry.db": 1},
			Counted:  true,
			Journals: Journals{Up: true, Uploads: map[string]int64{"taken": 1}},
		},
	)
	s.DHCP("DISCOVER", "pxe", "OFFER", false)
	s.requests.WithLabelValues("data", "/o/{id}", "200").Inc()
	s.answered.WithLabelValues("data", "/o/{id}").Add(1)
	s.inFlight.WithLabelValues("data").Set(1)
	p := &pasts{run: func(fleet.BootID) Run { return run }}
	if err := s.Event(trace.Event{Boot: "a", Time: time.Unix(1, 0), Stage: trace.Booted, Kind: trace.End},
		p); err != nil {
		t.Fatal(err)
	}
	return read(t, s)
}

// promtool runs Prometheus' own checker.
func promtool(t *testing.T, in string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed: Debian's package prometheus has it")
	}
	c := exec.CommandContext(t.Context(), "promtool", args...)
	c.Stdin = strings.NewReader(in)
	if out, err := c.CombinedOutput(); err != nil || bytes.Contains(out, []byte("FAILED")) {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestMetricsAreConventional: Prometheus' own linter finds nothing about names, units and help texts.
func TestMetricsAreConventional(t *testing.T) {
	var ours []string
	for line := range strings.Lines(full(t)) {
		if strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), "pando_") {
			ours = append(ours, line)
		}
	}
	promtool(t, strings.Join(ours, ""), "check", "metrics")
}

// TestRules: the alert rules can be parsed, and pass their unit tests.
func TestRules(t *testing.T) {
	promtool(t, "", "check", "rules", filepath.Join(dist, "prometheus/pando.rules.yml"))
	promtool(t, "", "test", "rules", filepath.Join(dist, "prometheus/pando.test.yml"))
}

// rules holds the parts of a file of alerts that these tests use.
type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
			Annotations map[string]string
		}
	}
}

func TestEveryAlertIsTested(t *testing.T) {
	var r rules
	if err := yaml.Unmarshal(readFile(t, "prometheus/pando.rules.yml"), &r); err != nil {
		t.Fatal(err)
	}
	tests := string(readFile(t, "prometheus/pando.test.yml"))
	n := 0
	for _, g := range r.Groups {
		for _, a := range g.Rules {
			n++
			fires := regexp.MustCompile(`alertname: ` + a.Alert + `\n\s+exp_alerts:\n\s+- exp_labels`)
			if !fires.MatchString(tests) {
				t.Errorf("no unit test sees %s fire", a.Alert)
			}
			if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
				t.Errorf("%s does not say what happened, or not what to do", a.Alert)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d alerts were found", n)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dist, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (pando_\w+) (\w+)$`)
	metricName = regexp.MustCompile(`\bpando_[a-z0-9_]+\b`)
)

// names returns the metrics of a server, and the series, including those of histograms.
func names(t *testing.T) (metrics, series []string) {
	t.Helper()
	for _, m := range typeLine.FindAllStringSubmatch(full(t), -1) {
		metrics, series = append(metrics, m[1]), append(series, m[1])
		if m[2] == "histogram" {
			series = append(series, m[1]+"_bucket", m[1]+"_sum", m[1]+"_count")
		}
	}
	return metrics, series
}

// TestRulesAndBoardAskForWhatThereIs: alerts and panels use existing metrics only. A renamed metric would leave an
// alert that never fires, or an empty panel.
func TestRulesAndBoardAskForWhatThereIs(t *testing.T) {
	_, series := names(t)
	for _, file := range []string{"prometheus/pando.rules.yml", "prometheus/pando.test.yml", "grafana/pando.json"} {
		asked := metricName.FindAllString(string(readFile(t, file)), -1)
		if len(asked) < 15 {
			t.Errorf("%s asks for %d metrics only", file, len(asked))
		}
		for _, name := range asked {
			if !slices.Contains(series, name) {
				t.Errorf("%s asks for %s, which no server tells", file, name)
			}
		}
	}
}

// TestBoard: every panel has an expression that Prometheus' parser accepts.
func TestBoard(t *testing.T) {
	var board struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			Targets []struct{ Expr string }
			GridPos struct{ H, W, X, Y int }
		}
	}
	if err := json.Unmarshal(readFile(t, "grafana/pando.json"), &board); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString("groups:\n- name: board\n  rules:\n")
	seen := map[int]bool{}
	for _, p := range board.Panels {
		if seen[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.Title == "" {
			t.Errorf("panel %d %q: its number, place or title", p.ID, p.Title)
		}
		seen[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for i, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$group", ".*").
				Replace(target.Expr)
			fmt.Fprintf(&out, "  - {record: 'panel_%d_%d', expr: '%s'}\n", p.ID, i, expr)
		}
	}
	file := filepath.Join(t.TempDir(), "board.yml")
	if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", file)
}

// TestDocsNameEveryMetric: the documentation names every metric, and none that does not exist.
func TestDocsNameEveryMetric(t *testing.T) {
	metrics, series := names(t)
	b, err := os.ReadFile("../../docs/monitor.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := metricName.FindAllString(string(b), -1)
	for _, m := range metrics {
		if !slices.Contains(doc, m) {
			t.Errorf("docs/monitor.md does not name %s", m)
		}
	}
	for _, d := range doc {
		if !slices.Contains(series, d) {
			t.Errorf("docs/monitor.md names %s, which no server tells", d)
		}
	}
}
