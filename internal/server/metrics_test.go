package server

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/registry"
	sitemetrics "pando/internal/server/metrics"
	"pando/internal/tftp"
	"pando/internal/trace"
)

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// find waits for a line with a message, and returns it.
func (l *lines) find(t *testing.T, message string) map[string]any {
	t.Helper()
	for range 500 {
		l.mu.Lock()
		text := l.buf.String()
		l.mu.Unlock()
		for line := range strings.Lines(text) {
			var entry map[string]any
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				t.Fatalf("not JSON: %s", line)
			}
			if entry["msg"] == message {
				return entry
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no line says %q:\n%s", message, l.buf.String())
	return nil
}

func withDashboard(c *Config) { c.Dashboard, c.MetricsOpen = "127.0.0.1:0", true }

// readMetrics reads the metrics at the port that is open to this machine.
func (s *site) readMetrics() string {
	s.t.Helper()
	res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", s.DashboardPort()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("metrics: status %d, %v: %s", res.StatusCode, err, b)
	}
	return string(b)
}

// series waits until a series has a value, because events are counted a moment after they are recorded.
func (s *site) series(name, want string) {
	s.t.Helper()
	got := ""
	for range 500 {
		text := s.readMetrics()
		for line := range strings.Lines(text) {
			if v, ok := strings.CutPrefix(line, name+" "); ok {
				got = strings.TrimSpace(v)
			}
		}
		if got == want {
			return
		}
		s.clock.add(sitemetrics.LookEvery)
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Errorf("%s is %q, want %q", name, got, want)
}

// TestMetricsOfBoots: a node's boot is counted from its first packet on, and no metric names the node.
func TestMetricsOfBoots(t *testing.T) {
	s := startSite(t, withDashboard)
	_, version := s.addImage()
	n := s.node(1)
	n.replay(readRecorded(t), trace.Booted)
	run := fmt.Sprintf(`group="default",image="lab",%%sversion="%s"`, version.Short())
	s.series(`pando_nodes{`+strings.Replace(run, "%s", `state="booted",`, 1)+`}`, "1")
	s.series(`pando_boots_total{`+strings.Replace(run, "%s", `outcome="booted",`, 1)+`}`, "1")
	s.series(`pando_boot_duration_seconds_count{`+strings.Replace(run, "%s", "", 1)+`}`, "1")
	s.series(`pando_dhcp_messages_total{answer="offer",client="pxe",message="discover"}`, "1")
	s.series(`pando_http_requests_total{code="200",listener="data",route="/boot/script"}`, "1")
	s.series(`pando_registry_up`, "1")
	s.series(`pando_kernel_loads{state="waiting"}`, "0")
	s.observeTFTP(tftp.Transfer{Name: "undionly.kpxe", Size: 10, Bytes: 10})
	s.observeTFTP(tftp.Transfer{Name: "nothing", Err: os.ErrNotExist})
	s.series(`pando_tftp_transfers_total{outcome="sent"}`, "1")
	s.series(`pando_tftp_transfers_total{outcome="refused"}`, "1")
	for _, secret := range []string{"node001", n.mac.String()} {
		if text := s.readMetrics(); strings.Contains(text, secret) {
			t.Errorf("the metrics name a node: %s", secret)
		}
	}

	m := s.node(2) // it stops at its initramfs
	cfg := m.load()
	if e := m.post("/v1/node/events", "Boot "+cfg.Token,
		api.ReportRequest{Boot: cfg.Boot, Uptime: time.Second, Events: []trace.Event{
			{Stage: trace.Init, Kind: trace.End}, {Stage: trace.Modules, Kind: trace.Fail, Message: "no driver"}}},
		nil); e != nil {
		t.Fatal(e)
	}
	s.series(`pando_boots_total{`+strings.Replace(run, "%s", `outcome="failed",`, 1)+`}`, "1")
	s.series(`pando_nodes_booting{stage="modules"}`, "1")
	s.clock.add(time.Hour)
	s.series(`pando_nodes_silent{group="default"}`, "1")
}

// TestMetricsWantAToken: at an address that other machines reach, metrics need a token.
func TestMetricsWantAToken(t *testing.T) {
	s := startSite(t)
	n := s.node(1)
	ask := func(path, token string) int {
		req, err := http.NewRequestWithContext(
			t.Context(),
			"GET",
			fmt.Sprintf("https://127.0.0.1:%d%s", s.ports.Control, path),
			nil,
		)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := n.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	token := s.token("prometheus")
	secret, _, err := api.ParseToken(token)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/metrics", "/v1/sd"} {
		if none, wrong := ask(path, ""), ask(path, "pando_AAAA.BBBB"); none != 401 || wrong != 401 {
			t.Errorf("%s answers %d without a token and %d to a wrong one", path, none, wrong)
		}
		if whole, part := ask(path, token), ask(path, secret); whole != 200 || part != 200 {
			t.Errorf("%s answers %d to a token and %d to its secret", path, whole, part)
		}
	}
	if status, _ := n.get("/metrics"); status != 404 {
		t.Errorf("the data path answers %d", status)
	}
}

// TestMetricsAreNotOpen: unless the configuration opens them, metrics need a token at a loopback address too.
func TestMetricsAreNotOpen(t *testing.T) {
	s := startSite(t, func(c *Config) { c.Dashboard = "127.0.0.1:0" })
	secret, _, err := api.ParseToken(s.token("prometheus"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/metrics", "/v1/sd"} {
		for token, want := range map[string]int{"": 401, "Bearer pando_AAAA.BBBB": 401, "Bearer " + secret: 200} {
			req, err := http.NewRequestWithContext(
				t.Context(),
				"GET",
				fmt.Sprintf("http://127.0.0.1:%d%s", s.DashboardPort(), path),
				nil,
			)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", token)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%s answers %d to %q, want %d", path, res.StatusCode, token, want)
			}
		}
	}
}

// token makes one as `pando token create` prints it.
func (s *site) token(name string) string {
	s.t.Helper()
	made, err := api.OverHandler(s.socketRoutes()).CreateToken(s.t.Context(), api.TokenCreate{Name: name})
	if err != nil {
		s.t.Fatal(err)
	}
	return made.Secret
}

// TestScrapeTargets: the scrape targets are the booted nodes, with their labels.
func TestScrapeTargets(t *testing.T) {
	s := startSite(t)
	_, version := s.addImage()
	s.node(1).replay(readRecorded(t), trace.Booted)
	s.node(2).replay(readRecorded(t), trace.Device)
	client := api.OverHandler(s.socketRoutes())
	rack := "r1"
	if _, err := client.SetNodes(t.Context(),
		api.NodeSet{Select: "node001", Labels: map[string]*string{"rack": &rack, "asset-no": &rack}}); err != nil {
		t.Fatal(err)
	}
	got, err := client.ScrapeTargets(t.Context(), "", 0)
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	if len(got[0].Targets) != 1 || got[0].Targets[0] != "127.0.0.1:9100" {
		t.Errorf("targets %v", got[0].Targets)
	}
	for name, want := range map[string]string{"node": "node001", "group": "default", "version": version.Short(),
		"rack":               "r1",
		"__meta_pando_image": "lab", "__meta_pando_label_asset_no": "r1", "__meta_pando_version": string(version)} {
		if got[0].Labels[name] != want {
			t.Errorf("label %s is %q, want %q", name, got[0].Labels[name], want)
		}
	}
	if got, err := client.ScrapeTargets(t.Context(), "@default!node001", 9400); err != nil || len(got) != 0 {
		t.Errorf("a node set chose %v, %v", got, err)
	}
	if _, err := client.ScrapeTargets(t.Context(), "", 70000); err == nil {
		t.Error("port 70000 is taken")
	}
}

// TestLogNamesNodeAndBoot: every log line about a boot has the node and the boot ID.
func TestLogNamesNodeAndBoot(t *testing.T) {
	log := &lines{}
	s := startSite(t, func(c *Config) {
		c.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	s.addImage()
	n := s.node(1)
	boot := n.replay(readRecorded(t), trace.Booted)
	m := s.node(2)
	cfg := m.load()
	if e := m.post("/v1/node/events", "Boot "+cfg.Token,
		api.ReportRequest{Boot: cfg.Boot, Uptime: time.Second, Events: []trace.Event{
			{Stage: trace.Init, Kind: trace.End},
			{Stage: trace.Modules, Kind: trace.Fail, Message: "no driver", Hint: "another image"}}}, nil); e != nil {
		t.Fatal(e)
	}
	up, failed, step := log.find(t, "booted"), log.find(t, "boot failed"), log.find(t, "boot begin")
	if up["node"] != "node001" || up["boot"] != string(boot) || up["level"] != "INFO" || up["mac"] != n.mac.String() {
		t.Errorf("booted: %v", up)
	}
	if failed["node"] != "node002" || failed["boot"] != string(cfg.Boot) || failed["stage"] != "modules" ||
		failed["message"] != "no driver" ||
		failed["hint"] != "another image" ||
		failed["level"] != "WARN" {
		t.Errorf("boot failed: %v", failed)
	}
	if step["node"] == "" || step["boot"] == "" || step["level"] != "DEBUG" {
		t.Errorf("boot begin: %v", step)
	}
	// The same holds for a failure that only the server sees.
	unknown := s.node(3)
	unknown.exchange(netboot.PXE)
	s.update(func(tx *registry.Tx) error {
		g, err := tx.Group(fleet.DefaultGroup)
		g.Image, g.Follow = "lab:gone", true
		return errors.Join(err, tx.PutGroup(g))
	})
	unknown.script()
	for range 500 {
		log.mu.Lock()
		output := strings.Contains(log.buf.String(), `"stage":"script","message":`) &&
			strings.Contains(log.buf.String(), `"node":"node003"`)
		log.mu.Unlock()
		if output {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("a refused script is not in the log with its node and boot:\n%s", log.buf.String())
}

// TestPrometheus: the real program scrapes the server at the control port, as docs/monitor.md says, finds the fleet's
// targets, and accepts the alert rules.
func TestPrometheus(t *testing.T) {
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip("prometheus is not installed: Debian's package prometheus")
	}
	s := startAlone(t)
	s.addImage()
	s.node(1).replay(readRecorded(t), trace.Booted)
	dir := t.TempDir()
	at := freePort(t)
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.ports.Control), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	rules, err := filepath.Abs("../../dist/prometheus/pando.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	auth := "authorization: {type: Bearer, credentials_file: pando.token}\n    tls_config: {ca_file: pando.crt, " +
		"server_name: pando}\n"
	config := fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%s]
scrape_configs:
  - job_name: pando
    scheme: https
    %s    static_configs:
      - targets: ["127.0.0.1:%d"]
  - job_name: node
    http_sd_configs:
      - url: https://127.0.0.1:%d/v1/sd
        %s`, rules, auth, s.ports.Control, s.ports.Control, strings.ReplaceAll(auth, "\n    ", "\n        "))
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw})
	for name, text := range map[string]string{"prometheus.yml": config, "pando.token": s.token("prometheus") + "\n",
		"pando.crt": string(cert)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(
		t.Context(),
		"prometheus",
		"--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+at,
		"--log.level=warn",
	)
	c.Stdout, c.Stderr = t.Output(), t.Output()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	prometheusSays(t, at, "/api/v1/query?query=pando_nodes%7Bstate%3D%22booted%22%7D", `"1"]`)
	prometheusSays(t, at, "/api/v1/targets", `"scrapeUrl":"http://127.0.0.1:9100/metrics"`)
	prometheusSays(t, at, "/api/v1/targets", `"node":"node001"`)
	prometheusSays(t, at, "/api/v1/rules", `PandoBootsSlower`)
}

// prometheusSays waits until an answer has a text.
func prometheusSays(t *testing.T, at, path, want string) {
	t.Helper()
	last := ""
	for range 600 {
		if res, err := http.Get("http://" + at + path); err == nil {
			b, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if last = string(b); strings.Contains(last, want) {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("%s does not say %s: %.2000s", path, want, last)
}

// freePort returns an unused address.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
