package openid

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
)

func TestRoleOfClaims(t *testing.T) {
	c := Config{
		Claim:  "groups",
		Grants: []Grant{{fleet.Viewer, "staff"}, {fleet.Admin, "root"}, {fleet.Operator, "lab"}},
	}
	nested, all := c, c
	nested.Claim = "realm_access.roles"
	all.Grants = append(all.Grants, Grant{fleet.Viewer, Everybody})
	url := c
	url.Claim = "https://example.org/groups"
	for _, x := range []struct {
		c       Config
		claimed string
		want    fleet.Role
	}{
		{c, `{"groups":["staff","lab"]}`, fleet.Operator}, {c, `{"groups":["root","staff"]}`, fleet.Admin},
		{c, `{"groups":"staff"}`, fleet.Viewer},
		{c, `{"groups":["Staff","stafff"]}`, ""}, {c, `{"groups":[]}`, ""}, {c, `{}`, ""}, {c, `{"groups":null}`, ""},
		{c, `{"groups":7}`, ""},
		{c, `{"groups":[["root"],{"root":true},null,"*"]}`, ""}, {c, `{"groups":{"root":true}}`, ""},
		{nested, `{"realm_access":{"roles":["lab"]}}`, fleet.Operator},
		{nested, `{"realm_access":["lab"],"groups":["root"]}`, ""},
		{url, `{"https://example.org/groups":["lab"]}`, fleet.Operator},
		{all, `{}`, fleet.Viewer}, {all, `{"groups":["lab"]}`, fleet.Operator},
	} {
		var claimed claims
		if err := json.Unmarshal([]byte(x.claimed), &claimed); err != nil {
			t.Fatal(err)
		}
		if got := x.c.role(claimed); got != x.want {
			t.Errorf("%s of %s: %q, want %q", x.c.Claim, x.claimed, got, x.want)
		}
	}
}

func TestNameOfClaims(t *testing.T) {
	c := Config{Name: "preferred_username"}
	for claimed, want := range map[string]string{`{"preferred_username":"desk"}`: "desk",
		`{"preferred_username":"a b"}`: "s-1", `{}`: "s-1",
		`{"preferred_username":"../x\n"}`: "s-1"} {
		var m claims
		if err := json.Unmarshal([]byte(claimed), &m); err != nil {
			t.Fatal(err)
		}
		if got, err := c.name(m, "s-1"); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", claimed, got, err, want)
		}
	}
	if got, err := c.name(claims{}, "no name\n"); err == nil {
		t.Errorf("a name was found: %q", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{
		Issuer: "https://login.example/realms/lab",
		Client: "pando",
		Claim:  DefaultClaim,
		Name:   DefaultName,
		Grants: []Grant{{fleet.Viewer, "x"}},
	}
	for what, x := range map[string]struct {
		change func(*Config)
		ok     bool
	}{
		"good":             {func(*Config) {}, true},
		"http of loopback": {func(c *Config) { c.Issuer = "http://127.0.0.1:5556/dex" }, true},
		"http":             {func(c *Config) { c.Issuer = "http://login.example" }, false},
		"no URL":           {func(c *Config) { c.Issuer = "login.example" }, false},
		"a secret in it":   {func(c *Config) { c.Issuer = "https://a:b@login.example" }, false},
		"no client":        {func(c *Config) { c.Client = "" }, false},
		"no roles":         {func(c *Config) { c.Grants = nil }, false},
		"no claim":         {func(c *Config) { c.Claim = "" }, false},
	} {
		c := good
		x.change(&c)
		if err := c.Check(); (err == nil) != x.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	for text, ok := range map[string]bool{"operator=it-staff": true, "viewer=*": true, "operator": false,
		"operator=": false, "root=x": false, "admin=a=b": true} {
		if g, err := ParseGrant(text); (err == nil) != ok {
			t.Errorf("%s: %+v %v", text, g, err)
		}
	}
}

// TestProviderThatFails: after a failure the provider is not asked for a while, and a provider that reports another
// issuer is refused.
func TestProviderThatFails(t *testing.T) {
	asked, body := 0, ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		if body == "" {
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = w.Write([]byte(body))
	}))
	defer s.Close()
	now := time.Now()
	p := New(Config{Issuer: s.URL, Client: "pando"}, func() time.Time { return now })
	for range 3 {
		if _, err := p.Begin(t.Context(), Attempt{}); !errors.Is(err, ErrUnreachable) {
			t.Error(err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times within %s", asked, quietFor)
	}
	now = now.Add(quietFor)
	body = `{"issuer":"https://evil.example","authorization_endpoint":"https://evil.example/a","token_endpoint":"https://evil.example/t","jwks_uri":"https://evil.example/k"}`
	if _, err := p.Begin(t.Context(), Attempt{}); !errors.Is(err, ErrUnreachable) {
		t.Error("another issuer:", err)
	}
	now = now.Add(quietFor)
	body = strings.ReplaceAll(body, "https://evil.example", s.URL)
	to, err := p.Begin(
		t.Context(),
		Attempt{State: "st", Nonce: "no", Verifier: strings.Repeat("v", 43), Redirect: "https://here/login"},
	)
	if err != nil || !strings.HasPrefix(to, s.URL+"/a?") || !strings.Contains(to, "state=st") ||
		!strings.Contains(to, "nonce=no") ||
		!strings.Contains(to, "code_challenge_method=S256") ||
		strings.Contains(to, strings.Repeat("v", 43)) {
		t.Errorf("%s %v", to, err)
	}
	s.Close()
	now = now.Add(2 * goodFor)
	if _, err := p.Begin(t.Context(), Attempt{}); err != nil {
		t.Error("what it said before is good while it is down:", err)
	}
}
