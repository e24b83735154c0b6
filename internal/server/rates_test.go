package server

import (
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// TestFloodOfRequests: a token, a user and an address that send requests without end are limited separately. Meanwhile
// others, nodes and users of the socket are served without limit.
func TestFloodOfRequests(t *testing.T) {
	s, base, desk := startDashboard(t, func(c *Config) { c.APIRate, c.MetricsOpen = 2, true })
	const most = 2 * 10 // the size of a burst in requests
	s.addImage()
	ci, other := s.remote(fleet.Viewer), s.remote(fleet.Operator)
	ask429 := func(ask func() error) (n int) {
		var err error
		for err = ask(); err == nil && n < 1000; err = ask() {
			n++
		}
		var e *api.Error
		if !errors.As(err, &e) || e.Status != http.StatusTooManyRequests || e.RetryAfter != time.Second ||
			!strings.Contains(e.Hint, "wait 1s") {
			t.Errorf("after %d: %+v", n, err)
		}
		return n
	}
	groups := func(c *api.Client) func() error {
		return func() error {
			_, err := c.Groups(t.Context())
			return err
		}
	}
	if n := ask429(groups(ci)); n != most {
		t.Errorf("%d requests at once", n)
	}
	if _, err := other.Groups(t.Context()); err != nil {
		t.Error("another token is refused too:", err)
	}
	if _, err := ci.Object(t.Context(), chunk.Sum([]byte("none"))); !api.IsCode(err, api.NotFound) {
		t.Error("who fetches objects of images has to wait:", err)
	}
	s.clock.add(time.Second)
	if n := ask429(groups(ci)); n != 2 {
		t.Errorf("%d requests after a second", n)
	}
	s.floodPages(base, desk, most)
	n := s.node(1)
	n.fast = true
	cfg := n.load()
	session := "Bearer " + n.register(cfg).Session
	for i := range 3 * most {
		if e := n.post("/v1/node/events", session,
			api.ReportRequest{Boot: cfg.Boot, Uptime: time.Duration(i) * time.Millisecond,
				Events: []trace.Event{{Stage: trace.Root, Kind: trace.Info}}}, nil); e != nil {
			t.Fatal(e)
		}
		if code, _ := n.get("/boot/script?mac=" + n.mac.String()); code != http.StatusOK {
			t.Fatalf("script %d: %d", i, code)
		}
	}
	here := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	for range 3 * most {
		if _, err := here.Groups(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// floodPages requests pages with a token and as a user, and metrics without a login.
func (s *site) floodPages(base, token string, most int) {
	s.t.Helper()
	until429 := func(path, cookie string) (n int) {
		got := ask(s.t, "GET", base+path, cookie, nil)
		for ; got.status == http.StatusOK && n < 1000; n++ {
			got = ask(s.t, "GET", base+path, cookie, nil)
		}
		if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "1" ||
			!strings.Contains(got.body, "wait 1s") {
			s.t.Errorf("%s after %d: %d, %v\n%s", path, n, got.status, got.header, got.body)
		}
		return n
	}
	if _, err := api.OverHandler(s.socketRoutes()).CreateUser(s.t.Context(),
		api.UserCreate{Name: "bench", Role: fleet.Viewer, Password: "first password"}); err != nil {
		s.t.Fatal(err)
	}
	in := ask(s.t, "POST", base+"/login", "", []byte(url.Values{"to": {"/"}, "token": {token}}.Encode()))
	admitted, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
	user, _ := logIn(s.t, base, "bench", "first password")
	if n := until429("/images", admitted); n < most-2 || n > most { // logging in costs requests too
		s.t.Errorf("%d pages at once", n)
	}
	if n := until429("/images", user); n != most {
		s.t.Errorf("%d pages of another person", n)
	}
	if n := until429("/metrics", ""); n < most-3 || n > most {
		s.t.Errorf("%d times metrics", n)
	}
	s.clock.add(time.Minute)
	s.series(`pando_api_refusals_total{by="token"}`, "3")
	s.series(`pando_api_refusals_total{by="user"}`, "1")
	s.series(`pando_api_refusals_total{by="address"}`, "1")
}
