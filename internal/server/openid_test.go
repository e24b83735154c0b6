package server

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/openid"
)

// notes is a log that tests can read.
type notes struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(b)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.String()
}

// TestLoginByProvider: a person with a role at the provider may do what the role allows, and is in the list of users
// and in the audit log.
func TestLoginByProvider(t *testing.T) {
	var log notes
	s, base, _ := startProvider(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	here := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	s.addImage()
	s.node(1).load()
	v := newVisitor(t)
	v.ask("GET", base+"/nodes/node001", nil)
	if v.at.Path != "/login" || !strings.Contains(v.body, "Log in with localhost") ||
		!strings.Contains(v.body, `name="password"`) {
		t.Fatalf("%s: %s", v.at, v.body)
	}
	v.ask("GET", base+"/login/oidc?to=/nodes/node001", nil)
	v.prove("desk")
	if v.code != 200 || v.at.String() != base+"/nodes/node001" || !strings.Contains(v.body, "<span>desk</span>") ||
		!strings.Contains(v.body, `action="/nodes/node001/group"`) {
		t.Fatalf("desk, an operator, is at %s: %d\n%s", v.at, v.code, v.body)
	}
	if v.ask("GET", base+"/audit", nil); v.code != 403 {
		t.Errorf("an operator reads the audit log: %d", v.code)
	}
	chief := newVisitor(t)
	code := chief.back(base, "chief")
	if chief.ask("GET", code, nil); chief.code != 200 || chief.at.Path != "/boots" {
		t.Fatalf("chief is at %s: %d", chief.at, chief.code)
	}
	if chief.ask("GET", base+"/audit", nil); chief.code != 200 || !strings.Contains(chief.body, "/login/oidc") {
		t.Errorf("an admin reads the audit log: %d", chief.code)
	}
	users, err := here.Users(t.Context())
	if err != nil || len(users) != 2 || users[1].Name != "desk" || users[1].Role != fleet.Operator ||
		users[1].Issuer != s.cfg.OpenID.Issuer ||
		users[1].Used.IsZero() {
		t.Errorf("users: %+v %v", users, err)
	}
	role := fleet.Admin
	if _, err := here.SetUser(t.Context(), "desk", api.UserSet{Role: &role}); !api.IsCode(err, api.BadRequest) {
		t.Error("a role is given here to who is known elsewhere:", err)
	}
	if _, got := logIn(t, base, "desk", ""); got.status != 401 {
		t.Errorf("desk has no password here, and logs in with none: %d", got.status)
	}
	back := newVisitor(t)
	back.c.Jar = v.c.Jar
	s.restart()
	if back.ask("GET", base+"/boots", nil); back.at.Path != "/boots" {
		t.Error("the session does not outlive the server")
	}
	v.ask("GET", base+"/boots", nil)
	if v.submit(nil); v.at.Path != "/login" {
		t.Errorf("logged out, and at %s", v.at)
	}
	if v.ask("GET", base+"/boots", nil); v.at.Path != "/login" {
		t.Errorf("still at %s after logging out", v.at)
	}
	q, err := url.Parse(code)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{ourSecret, q.Query().Get("code")} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

// TestProviderTakesRolesAway: a person without a role cannot log in; the login of a person who has lost the role ends
// that person's sessions.
func TestProviderTakesRolesAway(t *testing.T) {
	s, base, _ := startProvider(t)
	here := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	for _, name := range []string{"guest", "alone"} {
		v := newVisitor(t)
		if v.ask("GET", v.back(base, name), nil); v.code != 403 || !strings.Contains(v.body, name+" has no role here") {
			t.Errorf("%s: %d\n%s", name, v.code, v.body)
		}
		if v.ask("GET", base+"/boots", nil); v.at.Path != "/login" {
			t.Errorf("%s is at %s", name, v.at)
		}
	}
	first, second := newVisitor(t), newVisitor(t)
	first.ask("GET", first.back(base, "desk"), nil)
	if first.ask("GET", base+"/boots", nil); first.at.Path != "/boots" {
		t.Fatal("desk is not logged in")
	}
	s.cfg.OpenID.Grants = []openid.Grant{{Role: fleet.Viewer, Value: "visitors"}}
	s.restart()
	if second.ask("GET", second.back(base, "desk"), nil); second.code != 403 {
		t.Errorf("without a role any more: %d", second.code)
	}
	if first.ask("GET", base+"/boots", nil); first.at.Path != "/login" {
		t.Error("the older session goes on")
	}
	guest := newVisitor(t)
	if guest.ask("GET", guest.back(base, "guest"), nil); guest.code != 200 {
		t.Errorf("with a role now: %d", guest.code)
	}
	s.cfg.OpenID = nil
	s.restart()
	if guest.ask("GET", base+"/boots", nil); guest.at.Path != "/login" || strings.Contains(guest.body, "Log in with") {
		t.Error("the session outlives the provider")
	}
	if _, err := here.CreateUser(t.Context(), api.UserCreate{Name: "guest", Password: "another one"}); !api.IsCode(
		err,
		api.Conflict,
	) {
		t.Error("two users of one name:", err)
	}
}

// TestProviderRefuses: a login is accepted only from the browser that began it, with this login's code, for this site,
// signed, in time, and once.
func TestProviderRefuses(t *testing.T) {
	s, base, p := startProvider(t)
	refused := func(what string, v *visitor, status int) {
		t.Helper()
		if v.code != status || v.at.Path == "/boots" {
			t.Errorf("%s: %d at %s\n%s", what, v.code, v.at, v.body)
		}
		if v.ask("GET", base+"/boots", nil); v.at.Path != "/login" {
			t.Errorf("%s: there is a session", what)
		}
		s.clock.add(time.Minute) // the failed logins from one address are limited
	}
	good := newVisitor(t)
	var earlier []byte
	p.spoiled("/oauth/token", func(b []byte) []byte { earlier = bytes.Clone(b); return b })
	to := good.back(base, "desk")
	if good.ask("GET", to, nil); good.code != 200 || len(earlier) == 0 {
		t.Fatalf("the login that is right: %d", good.code)
	}
	p.spoiled("", nil)
	asked := p.exchanges()

	v := newVisitor(t)
	v.ask("GET", to, nil)
	refused("in another browser", v, 401)
	v = newVisitor(t)
	back := v.back(base, "desk")
	v.ask("GET", strings.Replace(back, "state=", "state=x", 1), nil)
	refused("with another state", v, 401)
	v.ask("GET", back, nil)
	refused("again after another state", v, 401)
	v = newVisitor(t)
	back = v.back(base, "desk")
	s.clock.add(11 * time.Minute)
	v.ask("GET", back, nil)
	s.clock.add(-11 * time.Minute)
	refused("much later", v, 401)
	if p.exchanges() != asked {
		t.Error("a code was exchanged that could not be ours")
	}

	v = newVisitor(t)
	back = v.back(base, "desk")
	cookies := v.c.Jar.Cookies(&url.URL{Scheme: "http", Host: strings.TrimPrefix(base, "http://"), Path: "/login/oidc"})
	if v.ask("GET", back, nil); v.code != 200 {
		t.Fatal("the login that is right:", v.code)
	}
	v = newVisitor(t)
	v.c.Jar.SetCookies(
		&url.URL{Scheme: "http", Host: strings.TrimPrefix(base, "http://"), Path: "/login/oidc/x"},
		cookies,
	)
	v.ask("GET", back, nil)
	refused("a code for the second time", v, 401)

	for what, change := range map[string]func(b []byte) []byte{
		"a nonce of another login": func([]byte) []byte { return earlier },
		"a signature that is wrong": func(b []byte) []byte {
			return withToken(t, b, func(id string) string { return id[:len(id)-8] + "AAAAAAAA" })
		},
		"a token that nobody signed": func(b []byte) []byte { return withToken(t, b, unsigned) },
		"no ID token": func(b []byte) []byte {
			return withToken(t, b,
				func(string) string { return "" })
		},
		"a token that is over": func(b []byte) []byte { s.clock.add(30 * 24 * time.Hour); return b },
	} {
		before := s.clock.now()
		v := newVisitor(t)
		back := v.back(base, "desk")
		p.spoiled("/oauth/token", change)
		v.ask("GET", back, nil)
		p.spoiled("", nil)
		s.clock.add(before.Sub(s.clock.now()))
		refused(what, v, 401)
	}
}

// TestProviderForAnotherClient: a token with the right nonce that the provider issued to another client is refused.
func TestProviderForAnotherClient(t *testing.T) {
	_, base, p := startProvider(t)
	v := newVisitor(t)
	v.stop = base + "/login/oidc/callback"
	v.c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	v.ask("GET", base+"/login/oidc?to=/boots", nil)
	away := v.location(t)
	nonce := away.Query().Get("nonce")
	if nonce == "" || away.Query().Get("code_challenge_method") != "S256" ||
		away.Query().Get("response_type") != "code" {
		t.Fatalf("sent to %s", away)
	}

	other := newVisitor(t)
	other.stop = v.stop
	verifier := strings.Repeat("another-verifier-", 4)
	q := away.Query()
	q.Set("client_id", "other")
	q.Set("code_challenge", challenge(verifier))
	away.RawQuery = q.Encode()
	other.ask("GET", away.String(), nil)
	other.prove("desk")
	foreign := foreignTokens(t, p.issuer, other.at.Query().Get("code"), verifier, v.stop)

	mine := newVisitor(t)
	mine.c.Jar, mine.stop = v.c.Jar, v.stop
	q.Set("client_id", "pando")
	away = v.location(t)
	mine.ask("GET", away.String(), nil)
	mine.prove("desk")
	mine.stop = ""
	p.spoiled("/oauth/token", func([]byte) []byte { return foreign })
	if mine.ask("GET", mine.at.String(), nil); mine.code != 401 || mine.at.Path == "/boots" {
		t.Errorf("a token for another client: %d at %s", mine.code, mine.at)
	}
	p.spoiled("", nil)
}

// TestProviderIsDown: the login page says so, and people with a password here can log in.
func TestProviderIsDown(t *testing.T) {
	s, base, p := startProvider(t)
	here := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	if _, err := here.CreateUser(t.Context(), api.UserCreate{Name: "local", Password: "first password"}); err != nil {
		t.Fatal(err)
	}
	v := newVisitor(t)
	back := v.back(base, "desk")
	if err := p.front.Close(); err != nil {
		t.Fatal(err)
	}
	v.ask("GET", back, nil)
	if v.code != 503 || !strings.Contains(v.body, "localhost cannot be used now") ||
		!strings.Contains(v.body, `name="password"`) {
		t.Errorf("down when somebody comes back: %d\n%s", v.code, v.body)
	}
	s.restart()
	if v.ask("GET", base+"/login/oidc?to=/boots", nil); v.code != 503 ||
		!strings.Contains(v.body, "localhost cannot be used now") {
		t.Errorf("down: %d\n%s", v.code, v.body)
	}
	if _, got := logIn(t, base, "local", "first password"); got.status != 303 {
		t.Errorf("a password of this server: %d", got.status)
	}
}

// TestLoginByProviderInABrowser plays a login in Chromium.
func TestLoginByProviderInABrowser(t *testing.T) {
	_, base, _ := startProvider(t)
	v := startBrowser(t, base)
	v.Window(1280, 800, false)
	v.Open("/boots")
	v.Accessible("login page with a provider")
	v.Keep("login-oidc")
	v.Run(`document.querySelector("a.button.main").click()`)
	v.arrive(`location.hostname === "localhost" && document.querySelector("input[name=login]")`)
	v.Run(
		`document.querySelector("input[name=login]").value = "desk"; document.querySelector("input[name=login]").form.requestSubmit()`,
	)
	v.arrive(`document.querySelector("input[name=password]")`)
	v.Run(
		`document.querySelector("input[name=password]").value = "` + password +
			`"; document.querySelector("input[name=password]").form.requestSubmit()`,
	)
	v.arrive(`document.querySelector("button[value=accept]")`)
	v.Run(`document.querySelector("button[value=accept]").click()`)
	v.arrive(
		`location.hostname === "127.0.0.1" && location.pathname === "/boots" && document.querySelector("form.who span")`,
	)
	if got := v.Run(`document.querySelector("form.who span").textContent`); !strings.Contains(got, "desk") {
		t.Errorf("logged in as %s", got)
	}
	v.Run(`document.querySelector("form.who button").click()`)
	v.arrive(`location.pathname === "/login"`)
}

// arrive waits until a page is shown, whatever pages come in between.
func (v *visit) arrive(condition string) {
	v.t.Helper()
	for {
		there := false
		err := v.Eval(v.ctx, `document.readyState === "complete" && !!(`+condition+`)`, &there)
		if there {
			return
		}
		if v.ctx.Err() != nil {
			v.t.Fatalf("no page with %s: %v", condition, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// withToken changes the ID token in an answer of the provider.
func withToken(t *testing.T, b []byte, change func(string) string) []byte {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Errorf("%v: %s", err, b)
		return b
	}
	id, _ := m["id_token"].(string)
	if m["id_token"] = change(id); m["id_token"] == "" {
		delete(m, "id_token")
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Error(err)
	}
	return b
}
