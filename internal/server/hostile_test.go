package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
)

// TestFailedLoginsAreSummed: a client without an account causes one entry with a count in the audit log in ten minutes.
func TestFailedLoginsAreSummed(t *testing.T) {
	s, base, _ := startDashboard(t)
	here := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	before, err := here.Audit(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 70 {
		logIn(t, base, fmt.Sprintf("nobody%d", i), "wrong password")
	}
	all, err := here.Audit(t.Context(), 0, 0)
	if err != nil || len(all) != len(before)+1 || all[0].Path != "/login" || all[0].From != "127.0.0.1" ||
		all[0].Who != "several users" || !strings.Contains(all[0].Error, "64 or more failed logins") {
		t.Fatalf("%d lines before, now %d: %+v %v", len(before), len(all), all[0], err)
	}
	s.clock.add(11 * time.Minute)
	logIn(t, base, "nobody", "wrong password")
	if all, err = here.Audit(t.Context(), 0, 0); err != nil || len(all) != len(before)+2 {
		t.Errorf("later: %d lines, %v", len(all), err)
	}
}

var formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)

// TestLogoutEndsSession: the cookie is useless after a logout, also after a restart; another session of the same user
// goes on. The audit log has the browser's actions with its address.
func TestLogoutEndsSession(t *testing.T) {
	s, base, _ := startDashboard(t)
	here := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	_, err := here.CreateUser(t.Context(),
		api.UserCreate{Name: "desk", Role: fleet.Operator, Password: "first password"})
	if err != nil {
		t.Fatal(err)
	}
	s.addImage()
	s.node(1).load()
	cookie, _ := logIn(t, base, "desk", "first password")
	other, _ := logIn(t, base, "desk", "first password")
	form := formToken.FindStringSubmatch(ask(t, "GET", base+"/nodes/node001", cookie, nil).body)
	if form == nil {
		t.Fatal("the page has no form")
	}
	if got := ask(t, "POST", base+"/nodes/node001/group", cookie,
		[]byte("group=default&form="+form[1])); got.status != http.StatusSeeOther {
		t.Fatalf("change of a group: %d %s", got.status, got.body)
	}
	all, err := here.Audit(t.Context(), 0, 1)
	if err != nil || all[0].Who != "user desk" || all[0].From != "127.0.0.1" || all[0].Path == "/login" {
		t.Errorf("a change by a browser in the audit log: %+v %v", all, err)
	}
	if got := ask(t, "POST", base+"/logout", cookie, []byte("form="+form[1])); got.status != http.StatusSeeOther {
		t.Fatalf("logout: %d %s", got.status, got.body)
	}
	check := func(when string) {
		t.Helper()
		if got := ask(t, "GET", base+"/nodes/node001", cookie, nil); got.status == 200 {
			t.Error("the session outlives its logout " + when)
		}
		if got := ask(t, "GET", base+"/nodes/node001", other, nil); got.status != 200 {
			t.Errorf("another session ended with it %s: %d", when, got.status)
		}
	}
	check("at once")
	s.restart()
	check("after a restart")
}

// TestStreamsOfOneViewer: the streams of one viewer are limited, and others are still served.
func TestStreamsOfOneViewer(t *testing.T) {
	_, base, token := startDashboard(t)
	in := ask(t, "POST", base+"/login", "", []byte("to=/&token="+token))
	cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
	status := func() int {
		req, err := http.NewRequestWithContext(t.Context(), "GET", base+"/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Cookie", cookie)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode
	}
	for i := range 40 {
		want := http.StatusOK
		if i >= 32 {
			want = http.StatusTooManyRequests
		}
		if got := status(); got != want {
			t.Errorf("stream %d: %d, want %d", i+1, got, want)
		}
	}
	if got := ask(t, "GET", base+"/login", "", nil); got.status != http.StatusOK {
		t.Errorf("others are answered with %d", got.status)
	}
}

// TestStreamsOfOneToken: the same by the control port, for events and journals together; a stream that ends makes room.
func TestStreamsOfOneToken(t *testing.T) {
	s := startSite(t)
	s.addImage()
	server := httptest.NewServer(s.controlRoutes())
	t.Cleanup(server.Close)
	token := func(name string) string {
		made, err := operatorOf(t, s).CreateToken(t.Context(), api.TokenCreate{Name: name, Role: fleet.Viewer})
		if err != nil {
			t.Fatal(err)
		}
		secret, _, err := api.ParseToken(made.Secret)
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	follow := func(secret string) (status int, end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		req, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/v1/events/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+secret)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode, cancel
	}
	greedy, other := token("greedy"), token("other")
	var end func()
	for i := range httpapi.MaxStreams {
		var status int
		if status, end = follow(greedy); status != http.StatusOK {
			t.Fatalf("stream %d: %d", i+1, status)
		}
	}
	if status, _ := follow(greedy); status != http.StatusTooManyRequests {
		t.Errorf("one more is answered with %d", status)
	}
	if status, _ := follow(other); status != http.StatusOK {
		t.Errorf("another token is answered with %d", status)
	}
	end()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		status, _ := follow(greedy)
		if status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after one has ended: %d", status)
		}
	}
}
