package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/trace"
)

// costBoots is how many boots BenchmarkCostOfWatching measures each way.
const costBoots = 100

// playTask is the task of the process that plays nodes: register some boots, and send what nodes report.
type playTask struct {
	URL   string
	Key   ed25519.PublicKey
	Boots []playBoot
}

type playBoot struct {
	Register api.RegisterRequest
	Reports  []api.ReportRequest
}

// playDone is the cost of the task.
type playDone struct {
	CPU   time.Duration
	Bytes int64 // sent, with TLS
}

// BenchmarkCostOfWatching measures what watching costs: nodes that only register, and nodes that report everything,
// more often than real ones, to a server with history, metrics, console, samples and ten browsers on the map. A process
// of its own plays the nodes.
func BenchmarkCostOfWatching(b *testing.B) {
	s, base, token := startDashboard(b)
	s.addImage()
	r := readRecorded(b)
	in := ask(b, "POST", base+"/login", "", []byte("to=/&token="+token))
	cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
	for b.Loop() {
		silent, node0 := s.played(r, false)
		told, node1 := s.played(r, true)
		c := startChild(b, "watchers", watchTask{base + "/live?fleet=1", cookie, 10})
		var there watchDone
		c.hear(&there)
		watched, _ := s.played(r, true)
		c.end()
		boot := bootTime(r)
		each := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 / costBoots }
		b.ReportMetric(each(silent), "server-ms-silent")
		b.ReportMetric(each(told), "server-ms-told")
		b.ReportMetric(each(watched), "server-ms-watched")
		b.ReportMetric(each(node1.CPU-node0.CPU), "node-ms")
		b.ReportMetric(float64(node1.Bytes-node0.Bytes)/costBoots, "bytes-up")
		b.ReportMetric(float64(bytesRead(r))/1e6, "MB-of-the-boot")
		b.ReportMetric(boot.Seconds(), "s-of-the-boot")
		b.ReportMetric(100*each(watched-silent)/float64(boot.Milliseconds()), "%-server-of-boot")
		b.ReportMetric(100*each(node1.CPU-node0.CPU)/float64(boot.Milliseconds()), "%-node-of-boot")
		b.ReportMetric(100*float64(node1.Bytes-node0.Bytes)/costBoots/float64(bytesRead(r)), "%-up-of-bytes")
	}
}

// bootTime returns how long the recorded boot took from init to booted.
func bootTime(r recorded) (took time.Duration) {
	for _, e := range r.Events {
		if e.Stage == trace.Booted && e.Kind == trace.End {
			took = e.Offset
		}
	}
	return took
}

// bytesRead returns how much of its root the recorded boot received.
func bytesRead(r recorded) int64 { return r.Status.Bytes["server"] + r.Status.Bytes["peer"] }

// played makes nodes boot from their registration on, and returns the processor time of this process and the costs of
// theirs. Firmware and loader are not part of it.
func (s *site) played(r recorded, telling bool) (time.Duration, playDone) {
	s.t.Helper()
	task := playTask{URL: fmt.Sprintf("https://127.0.0.1:%d", s.ports.Control), Key: s.keys.ServerPublic()}
	for i := range byte(costBoots) {
		n := s.node(i + 1)
		n.fast = true
		cfg := n.load()
		n.http.CloseIdleConnections() // the connections of one address are limited
		p := playBoot{Register: registrationOf(cfg)}
		p.Register.Hardware = r.Hardware
		if telling {
			p.Reports = reportsOf(r, cfg)
		}
		task.Boots = append(task.Boots, p)
	}
	s.settled()
	s.clock.add(r.Uptime)
	c := startChild(s.t, "nodes", task)
	var done playDone
	c.hear(&done) // the process is ready
	begun := cpuTime(s.t)
	c.tell("go")
	c.hear(&done)
	s.settled()
	used := cpuTime(s.t) - begun
	c.end()
	s.clock.add(time.Hour)
	return used, done
}

// reportsOf returns the recorded boot as many small reports.
func reportsOf(r recorded, cfg api.BootConfig) []api.ReportRequest {
	var out []api.ReportRequest
	for i, e := range r.Events {
		report := api.ReportRequest{Boot: cfg.Boot, Uptime: max(e.Offset, time.Second), Events: []trace.Event{e}}
		if i > len(r.Events)-4 {
			status := r.Status
			report.Status = &status
		}
		out = append(out, report)
	}
	out[len(out)-1].Status.Fed = map[string]int64{"http://127.0.0.1:8480": 4e6, "10.0.0.7": 6e6, "10.0.0.8": 6e6}
	out[2].Console = strings.Repeat("[    1.234567] a line of the kernel's log, as long as they are\n", 60)
	return out
}

// playAll runs in the process that plays nodes. Each node has its own connections.
func playAll(t *testing.T, in *bufio.Reader) {
	d := json.NewDecoder(in)
	var task playTask
	if err := d.Decode(&task); err != nil {
		t.Fatal(err)
	}
	if err := answerParent(playDone{}); err != nil {
		t.Fatal(err)
	}
	var word string
	if err := d.Decode(&word); err != nil {
		t.Fatal(err)
	}
	begun := cpuTime(t)
	var sent atomic.Int64
	for _, b := range task.Boots {
		transport := &http.Transport{TLSClientConfig: api.PinnedTLS(task.Key), DialContext: countDials(&sent)}
		client := &http.Client{Transport: transport}
		var session api.RegisterResponse
		playPost(t, client, task.URL+"/v1/node/hello", "", b.Register, &session)
		for _, r := range b.Reports {
			playPost(t, client, task.URL+"/v1/node/events", "Bearer "+session.Session, r, nil)
		}
		transport.CloseIdleConnections()
	}
	if err := answerParent(playDone{cpuTime(t) - begun, sent.Load()}); err != nil {
		t.Fatal(err)
	}
}

func playPost(t *testing.T, client *http.Client, url, authorization string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && out != nil {
		err = json.Unmarshal(answer, out)
	}
	if err != nil || res.StatusCode/100 != 2 {
		t.Fatalf("%s: %s %s %v", url, res.Status, answer, err)
	}
}

// countDials counts the bytes that connections send.
func countDials(sent *atomic.Int64) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: c, sent: sent}, nil
	}
}
