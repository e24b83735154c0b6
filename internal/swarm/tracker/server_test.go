package tracker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/swarm"
)

// shortKey is the length of a pack's name in messages.
const shortKey = 15

// Large and malformed messages are refused. A node's address is the source address of its request.
func TestTrackerMessages(t *testing.T) {
	_, url, pack := newSite(t, 4, 0)
	send := func(path, body string) (int, string) {
		body = strings.ReplaceAll(body, "PACK", pack.String())
		resp, err := http.Post(url+"/swarm/"+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	for name, x := range map[string]struct {
		path, body string
		status     int
	}{
		"no JSON":            {"join", "x", 400},
		"too large":          {"join", `{"pack":"` + strings.Repeat("x", swarm.MaxMessage) + `"}`, 400},
		"ask without a join": {"ask", `{"pack":"PACK","port":82,"want":"0","max":1}`, 404},
		"pieces as numbers":  {"ask", `{"pack":"PACK","port":82,"want":[0],"max":1}`, 400},
		"join":               {"join", `{"pack":"PACK","pieces":4,"port":80,"prefix":99}`, 200},
		"no such way":        {"x", `{}`, 404},
		"another pack":       {"join", `{"pack":"sha256:00","pieces":4,"port":80}`, 404},
		"too few pieces":     {"join", `{"pack":"PACK","pieces":3,"port":80}`, 404},
	} {
		if code, text := send(x.path, x.body); code != x.status {
			t.Errorf("%s: status %d %s", name, code, text)
		}
	}
	_, _ = send("join", `{"pack":"PACK","pieces":4}`) // on the usual port
	_, text := send("join", `{"pack":"PACK","pieces":4,"port":81}`)
	var a swarm.AnnounceReplyMessage
	err := json.Unmarshal([]byte(text), &a)
	slices.SortFunc(a.Peers, netip.AddrPort.Compare)
	if err != nil || fmt.Sprint(a.Peers) != "[127.0.0.1:80 127.0.0.1:8481]" {
		t.Errorf("joined: %s, %v", text, err)
	}
	for pack, status := range map[string]int{pack.String(): 200, pack.String()[:shortKey]: 200, "": 404,
		pack.String()[:shortKey] + "x": 404, "sha256:x": 404} {
		if code, text := send("ask", `{"pack":"`+pack+`","port":81,"want":"0","max":1}`); code != status {
			t.Errorf("a question about pack %q: status %d %s", pack, code, text)
		}
	}
}

// When a node sends a new piece request, its open one gets an empty reply, not "unknown node".
func TestReplacedQuestion(t *testing.T) {
	s, url, pack := newSite(t, 40, 1000) // a full uplink
	ctx, cancel := context.WithCancel(t.Context())
	post := func(path, body string) string {
		r, err := http.NewRequestWithContext(
			ctx,
			http.MethodPost,
			url+"/swarm/"+path,
			strings.NewReader(strings.ReplaceAll(body, "PACK", pack.String())),
		)
		if err != nil {
			return err.Error()
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(b)))
	}
	post("join", `{"pack":"PACK","pieces":40,"port":81}`)
	post("join", `{"pack":"PACK","pieces":40,"port":82}`)
	post("ask", `{"pack":"PACK","port":82,"size":20000,"want":"0-5","max":8}`)
	question := func() <-chan string {
		c := make(chan string, 1)
		go func() { c <- post("ask", `{"pack":"PACK","port":81,"size":20000,"want":"0","max":1}`) }()
		return c
	}
	first := question()
	for held := 0; held == 0; {
		s.mu.Lock()
		held = len(s.waiting)
		s.mu.Unlock()
	}
	second := question()
	if got := <-first; got != `200 {"wait_ms":0}` {
		t.Error(got)
	}
	cancel()
	<-second
}

// Silent nodes, such as after a power cut, are not counted for ever.
func TestSilentNodesAreNotCounted(t *testing.T) {
	s := New(swarm.TrackerOptions{Random: chance()}, nil, nil)
	s.joinAs(t, 1)
	if s.Nodes() != 1 {
		t.Fatal("a node that joined is not counted")
	}
	s.start = s.start.Add(-time.Hour)
	if n := s.Nodes(); n != 0 {
		t.Errorf("%d nodes, which said nothing for an hour", n)
	}
}

// Addresses that belong to no node cannot ban a node, however many report it.
func TestOnlyNodesBan(t *testing.T) {
	s := New(swarm.TrackerOptions{Random: chance()}, nil, nil)
	s.Authenticated = func(a netip.Addr) bool { return a == at(1).Addr() || a == at(2).Addr() || a == at(3).Addr() }
	s.joinAs(t, 9)
	report := func(n byte) {
		r := httptest.NewRequest("POST", "/swarm/wrong", nil)
		r.RemoteAddr = at(n).String()
		if _, ok := s.corrupt(r, swarm.CorruptMessage{Peer: at(9)}); !ok {
			t.Error("a report is refused")
		}
	}
	for n := byte(11); n <= 20; n++ {
		report(n)
	}
	report(1)
	report(2)
	if s.Nodes() != 1 {
		t.Error("it is banned by addresses that are no nodes")
	}
	if report(3); s.Nodes() != 0 {
		t.Error("three nodes do not ban it")
	}
}

// A ban is logged once, with a hint for the operator.
func TestBansAreLogged(t *testing.T) {
	var log bytes.Buffer
	s := New(swarm.TrackerOptions{Random: chance()}, nil, slog.New(slog.NewTextHandler(&log, nil)))
	s.joinAs(t, 9)
	for n := byte(1); n <= 5; n++ {
		r := httptest.NewRequest("POST", "/swarm/wrong", nil)
		r.RemoteAddr = at(n).String()
		if _, ok := s.corrupt(r, swarm.CorruptMessage{Peer: at(9)}); !ok {
			t.Error("a report is refused")
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN") ||
		!strings.Contains(text, at(9).Addr().String()) ||
		!strings.Contains(text, "hint=") {
		t.Errorf("the log says %q", text)
	}
}
