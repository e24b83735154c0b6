package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/registry"
	"pando/internal/server/access"
)

// remote returns a client of the control port with a token of a role.
func (s *site) remote(role fleet.Role) *api.Client {
	s.t.Helper()
	made, err := api.OverHandler(s.socketRoutes()).
		CreateToken(s.t.Context(), api.TokenCreate{Name: "a-" + string(role), Role: role})
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := api.OverTLS(fmt.Sprintf("127.0.0.1:%d", s.ports.Control), made.Secret)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// TestRoles: a viewer changes nothing, and an operator gives nobody rights.
func TestRoles(t *testing.T) {
	s := startSite(t)
	ctx := t.Context()
	look := func(c *api.Client) error { _, err := c.Groups(ctx); return err }
	change := func(c *api.Client) error {
		_, err := c.CreateGroup(ctx, fleet.Group{Name: fmt.Sprintf("g%d", time.Now().UnixNano())})
		return err
	}
	give := func(c *api.Client) error {
		_, err := c.CreateToken(
			ctx,
			api.TokenCreate{Name: fmt.Sprintf("t%d", time.Now().UnixNano()), Role: fleet.Admin},
		)
		return err
	}
	read := func(c *api.Client) error { _, err := c.Audit(ctx, 0, 0); return err }
	for _, x := range []struct {
		role                     fleet.Role
		look, change, give, read bool
	}{{fleet.Viewer, true, false, false, false}, {fleet.Operator, true, true, false, false},
		{fleet.Admin, true, true, true, true}} {
		c := s.remote(x.role)
		for what, try := range map[string]struct {
			do  func(*api.Client) error
			may bool
		}{"look": {look, x.look}, "change": {change, x.change}, "give": {give, x.give}, "read the audit " +
			"log": {read, x.read}} {
			err := try.do(c)
			if try.may && err != nil || !try.may && !api.IsCode(err, api.Forbidden) {
				t.Errorf("%s may %s: %v; got %v", x.role, what, try.may, err)
			}
		}
	}
}

// TestRoutesNeedRoles lists for each route of the API the role that may use it, so that somebody must decide this for a
// new route.
func TestRoutesNeedRoles(t *testing.T) {
	for _, r := range (&Server{}).operatorList() {
		need := access.RoleFor(r.Method, r.Path)
		sensitive := strings.HasPrefix(r.Path, "/v1/users") || strings.HasPrefix(r.Path, "/v1/tokens") ||
			r.Path == "/v1/audit"
		switch {
		case sensitive && need != fleet.Admin:
			t.Errorf("%s %s: who may what is told to a %s", r.Method, r.Path, need)
		case r.Method != http.MethodGet && r.Path != "/v1/store/missing" && need == fleet.Viewer:
			t.Errorf("%s %s changes something, and a viewer may", r.Method, r.Path)
		case !need.May(fleet.Viewer):
			t.Errorf("%s %s needs %q", r.Method, r.Path, need)
		}
	}
}

// TestAudit: the audit log has each request with its caller and its outcome, and no secret.
func TestAudit(t *testing.T) {
	s := startSite(t)
	ctx := t.Context()
	here := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	if _, err := here.CreateUser(ctx, api.UserCreate{Name: "desk", Password: "swordfish one"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.remote(fleet.Viewer).CreateGroup(ctx, fleet.Group{Name: "room"}); !api.IsCode(err, api.Forbidden) {
		t.Fatal(err)
	}
	if _, err := s.remote(fleet.Operator).CreateGroup(ctx, fleet.Group{Name: "room"}); err != nil {
		t.Fatal(err)
	}
	all, err := here.Audit(ctx, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range all {
		if strings.Contains(string(a.Body)+a.Error, "swordfish") || a.Seq == 0 || a.At.IsZero() {
			t.Errorf("%+v", a)
		}
		got = append(got, fmt.Sprintf("%d %s %s %s %s", a.Status, a.Who, a.From, a.Path, a.Body))
	}
	want := []string{
		`200 token a-operator 127.0.0.1 /v1/groups {"name":"room"}`,
		`200 this machine  /v1/tokens {"name":"a-operator","role":"operator"}`,
		`403 token a-viewer 127.0.0.1 /v1/groups `,
		`200 this machine  /v1/tokens {"name":"a-viewer","role":"viewer"}`,
		`200 this machine  /v1/users {"name":"desk","password":"***"}`,
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d: %s\nwant %s", i, got[i], want[i])
		}
	}
	older, err := here.Audit(ctx, all[1].Seq, 1)
	if err != nil || len(older) != 1 || older[0].Seq != all[2].Seq {
		t.Errorf("before %d: %+v %v", all[1].Seq, older, err)
	}
}

// logIn posts the form of the login page, and returns the session's cookie.
func logIn(t testing.TB, base, user, password string) (cookie string, got answered) {
	t.Helper()
	got = ask(
		t,
		"POST",
		base+"/login",
		"",
		[]byte(url.Values{"to": {"/"}, "user": {user}, "password": {password}}.Encode()),
	)
	cookie, _, _ = strings.Cut(got.header.Get("Set-Cookie"), ";")
	return cookie, got
}

// TestLogin: a password opens the pages that the user's role allows. A changed password, a changed role and a deleted
// user end the session.
func TestLogin(t *testing.T) {
	s, base, _ := startDashboard(t)
	ctx := t.Context()
	here := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	if _, err := here.CreateUser(ctx,
		api.UserCreate{Name: "desk", Role: fleet.Viewer, Password: "first password"}); err != nil {
		t.Fatal(err)
	}
	s.addImage()
	s.node(1).load()
	cookie, got := logIn(t, base, "desk", "first password")
	if got.status != 303 || cookie == "" {
		t.Fatalf("login: %d %s", got.status, got.body)
	}
	page := ask(t, "GET", base+"/nodes/node001", cookie, nil)
	if page.status != 200 || strings.Contains(page.body, `action="/nodes/node001/group"`) {
		t.Errorf(
			"a viewer's page: %d, with a form to change the group: %v",
			page.status,
			strings.Contains(page.body, "/group"),
		)
	}
	if got := ask(t, "GET", base+"/audit", cookie, nil); got.status != 403 {
		t.Errorf("a viewer reads the audit log: %d", got.status)
	}
	admin, operator := fleet.Admin, fleet.Operator
	if _, err := here.SetUser(ctx, "desk", api.UserSet{Role: &operator}); err != nil {
		t.Fatal(err)
	}
	page = ask(t, "GET", base+"/nodes/node001", cookie, nil)
	if !strings.Contains(page.body, `action="/nodes/node001/group"`) {
		t.Error("an operator's page has no form to change the group")
	}
	if _, err := here.SetUser(ctx, "desk", api.UserSet{Role: &admin}); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, "GET", base+"/audit", cookie, nil); got.status != 200 ||
		!strings.Contains(got.body, "/v1/users/desk") {
		t.Errorf("an admin reads the audit log: %d", got.status)
	}
	second := "second password"
	if _, err := here.SetUser(ctx, "desk", api.UserSet{Password: &second}); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, "GET", base+"/nodes/node001", cookie, nil); got.status == 200 {
		t.Error("the session outlives its password")
	}
	cookie, _ = logIn(t, base, "desk", second)
	s.restart()
	if got := ask(t, "GET", base+"/nodes/node001", cookie, nil); got.status != 200 {
		t.Errorf("the session does not outlive the server: %d", got.status)
	}
	if err := here.DeleteUser(ctx, "desk"); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, "GET", base+"/nodes/node001", cookie, nil); got.status == 200 {
		t.Error("the session outlives its user")
	}
}

// TestGuessing: guessing of passwords is slowed down by name and by address, and answers do not reveal which users
// exist.
func TestGuessing(t *testing.T) {
	s, base, _ := startDashboard(t)
	ctx := t.Context()
	here := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	if _, err := here.CreateUser(ctx, api.UserCreate{Name: "desk", Password: "first password"}); err != nil {
		t.Fatal(err)
	}
	_, known := logIn(t, base, "desk", "wrong password")
	_, unknown := logIn(t, base, "nobody", "wrong password")
	if known.status != 401 || unknown.status != 401 ||
		strings.ReplaceAll(known.body, "desk", "") != strings.ReplaceAll(unknown.body, "nobody", "") {
		t.Errorf("a wrong password: %d, nobody: %d, or they differ", known.status, unknown.status)
	}
	for range 5 { // logins that may fail at once
		_, known = logIn(t, base, "desk", "wrong password")
	}
	if _, right := logIn(t, base, "desk", "first password"); known.status != 429 || right.status != 429 {
		t.Errorf("after many wrong passwords: %d, with the right one %d", known.status, right.status)
	}
	s.clock.add(time.Minute)
	if _, right := logIn(t, base, "desk", "first password"); right.status != 303 {
		t.Errorf("a minute later: %d", right.status)
	}
	all, err := here.Audit(ctx, 0, 0)
	if err != nil || all[0].Path != "/login" || all[0].Who != "user desk" || all[0].Status != 200 ||
		all[1].Status != 429 ||
		all[0].From != "127.0.0.1" {
		t.Errorf("logins in the audit log: %+v %v", all[:2], err)
	}
}

// TestTooManyTokensThatAreNotValid: a client that tries many tokens is told to wait; a valid token is accepted all the
// time.
func TestTooManyTokensThatAreNotValid(t *testing.T) {
	s := startSite(t)
	good := s.remote(fleet.Viewer)
	bad, err := api.OverTLS(
		fmt.Sprintf("127.0.0.1:%d", s.ports.Control),
		api.FormatToken("nonsense", s.keys.ServerPublic()),
	)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 { // logins that may fail at once
		if _, err := bad.Groups(t.Context()); !api.IsCode(err, api.Unauthorized) {
			t.Fatal(err)
		}
	}
	if _, err := bad.Groups(t.Context()); !api.IsCode(err, api.TooMany) {
		t.Error("nonsense is taken without end:", err)
	}
	if _, err := good.Groups(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestUsersAreChecked: names, roles and passwords that are not valid are refused.
func TestUsersAreChecked(t *testing.T) {
	s := startSite(t)
	here := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	for _, bad := range []api.UserCreate{{Name: "desk", Password: "short"}, {Name: "a b", Password: "long enough"},
		{Name: "desk", Role: "root", Password: "long enough"}, {Password: "long enough"}} {
		if _, err := here.CreateUser(t.Context(), bad); !api.IsCode(err, api.BadRequest) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	root := fleet.Role("root")
	if _, err := here.SetUser(t.Context(), "nobody", api.UserSet{Role: &root}); !api.IsCode(err, api.BadRequest) {
		t.Error(err)
	}
	if err := here.DeleteUser(t.Context(), "nobody"); !api.IsCode(err, api.NotFound) {
		t.Error(err)
	}
	s.update(func(tx *registry.Tx) error {
		if _, err := tx.User("nobody"); !errors.Is(err, registry.ErrNotFound) {
			t.Error(err)
		}
		return nil
	})
}

// TestDashboardByTLS: with a certificate the pages can be reached from other machines, by the certificate's names.
func TestDashboardByTLS(t *testing.T) {
	s := startSite(t, func(c *Config) {
		c.Dashboard, c.DashboardCert, c.DashboardName = "0.0.0.0:0", OwnCertificate, "boot.example"
	})
	pem, err := os.ReadFile(filepath.Join(s.cfg.Dir, "keys", identity.WebAuthorityFile))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "boot.example", Time: s.clock.now},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	status := func(host, path string) (int, http.Header) {
		req, err := http.NewRequestWithContext(
			t.Context(),
			"GET",
			fmt.Sprintf("https://127.0.0.1:%d%s", s.dashboardPort, path),
			nil,
		)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode, res.Header
	}
	if got, h := status("boot.example", "/login"); got != 200 || h.Get("Strict-Transport-Security") == "" {
		t.Errorf("login page: %d %v", got, h)
	}
	if got, _ := status("evil.example", "/login"); got != 421 {
		t.Errorf("under another name: %d", got)
	}
	if got, _ := status("boot.example", "/metrics"); got != 401 {
		t.Errorf("metrics without a token, from anywhere: %d", got)
	}
}

func TestDashboardAddresses(t *testing.T) {
	for _, x := range []struct {
		addr, cert, key string
		open, ok        bool
	}{
		{"127.0.0.1:8484", "", "", true, true}, {"[::1]:8484", "", "", false, true},
		{"localhost:8484", OwnCertificate, "", false, true},
		{"0.0.0.0:8484", "", "", false, false}, {"0.0.0.0:8484", OwnCertificate, "", false, true},
		{"0.0.0.0:8484", OwnCertificate, "", true, false},
		{"0.0.0.0:8484", "a.pem", "", false, false}, {":8484", "a.pem", "b.pem", false, true},
		{"0.0.0.0:8484", "", "b.pem", false, false},
		{"off", "", "", true, false}, {"off", "", "", false, true}, {"here", OwnCertificate, "", false, false},
	} {
		c := Config{Dashboard: x.addr, DashboardCert: x.cert, DashboardKey: x.key, DashboardOpen: x.open}
		if err := c.checkDashboard(); (err == nil) != x.ok {
			t.Errorf("%+v: %v", x, err)
		}
		c.DashboardOpen, c.MetricsOpen = false, x.open
		if err := c.checkDashboard(); (err == nil) != x.ok {
			t.Errorf("%+v, for metrics: %v", x, err)
		}
	}
}
