package server

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"pando/internal/fleet"
	"pando/internal/openid"
)

// canaille is a running OpenID provider behind a proxy that can change its answers.
type canaille struct {
	t      *testing.T
	issuer string
	front  *http.Server

	mu    sync.Mutex
	spoil func(path string, body []byte) []byte // nil: answers are not changed
	codes int                                   // number of exchanged codes

	pausing sync.Mutex
	paused  time.Time
}

// Secrets of the provider's clients and people. A secret with special characters is sent escaped, as RFC 6749 says,
// which not all providers decode.
const (
	ourSecret   = "hush-1-the-secret-of-pando"
	otherSecret = "hush-2-the-secret-of-another"
	password    = "correct horse 47"
)

// startProvider runs a site, and a provider that knows it and some people. For a browser they are different sites.
func startProvider(t *testing.T, change ...func(*Config)) (*site, string, *canaille) {
	t.Helper()
	python := filepath.Join(repository(t), "build/canaille/bin/python")
	if _, err := os.Stat(python); err != nil {
		t.Skip("Canaille is not installed; scripts/install-packages test does it")
	}
	p := &canaille{t: t}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := fmt.Sprintf("localhost:%d", l.Addr().(*net.TCPAddr).Port)
	p.issuer = "http://" + host
	s, base, _ := startDashboard(t, append([]func(*Config){func(c *Config) {
		c.OpenID = &openid.Config{
			Issuer: p.issuer,
			Client: "pando",
			Secret: ourSecret,
			Scopes: []string{"profile", "groups"},
			Claim:  "groups",
			Name:   "preferred_username",
			Grants: []openid.Grant{
				{Role: fleet.Viewer, Value: "staff"},
				{Role: fleet.Operator, Value: "lab-staff"},
				{Role: fleet.Admin, Value: "root"},
			},
		}
	}}, change...)...)
	s.clock.add(time.Since(s.clock.now())) // the provider uses the real clock
	type user struct {
		Name     string   `json:"name"`
		Password string   `json:"password"`
		Groups   []string `json:"groups"`
	}
	type client struct {
		ID        string   `json:"id"`
		Secret    string   `json:"secret"`
		Redirects []string `json:"redirects"`
	}
	port := p.run(python, map[string]any{"name": host, "port": 0, "database": filepath.Join(t.TempDir(), "canaille.db"),
		"users": []user{
			{"desk", password, []string{"lab-staff", "staff"}},
			{"chief", password, []string{"root", "staff"}},
			{"guest", password, []string{"visitors"}},
			{"alone", password, nil},
		},
		"clients": []client{
			{"pando", ourSecret, []string{base + "/login/oidc/callback"}},
			{"other", otherSecret, []string{base + "/login/oidc/callback"}},
		}})
	p.front = &http.Server{Handler: p.proxy(port), ReadHeaderTimeout: time.Minute}
	go func() { _ = p.front.Serve(l) }()
	t.Cleanup(func() { p.front.Close() })
	return s, base, p
}

// repository returns the directory of the module.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// run starts the provider, and returns its port.
func (p *canaille) run(python string, wants any) (port int) {
	p.t.Helper()
	line, err := json.Marshal(wants)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(python, "testdata/oidc/provider.py")
	var claimed bytes.Buffer
	cmd.Stderr = &claimed
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		in.Close() // this ends the provider
		_ = cmd.Wait()
		if p.t.Failed() {
			p.t.Log(claimed.String())
		}
	})
	if _, err := fmt.Fprintf(in, "%s\n", line); err != nil {
		p.t.Fatal(err)
	}
	text, err := bufio.NewReader(out).ReadString('\n')
	if _, bad := fmt.Sscan(text, &port); err != nil || bad != nil {
		p.t.Fatalf("the provider does not start: %v %v", err, bad)
	}
	return port
}

// proxy forwards requests to the provider, and its answers through spoil.
func (p *canaille) proxy(port int) http.Handler {
	to := &url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			if r.In.URL.Path == "/oauth/token" {
				p.pause()
			}
			r.SetURL(to)
			r.Out.Host = r.In.Host
			r.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(res *http.Response) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if res.Request.URL.Path == "/oauth/token" {
				p.codes++
			}
			b, err := io.ReadAll(res.Body)
			if err != nil {
				return err
			}
			if res.StatusCode >= http.StatusBadRequest {
				p.t.Logf("the provider answers %s: %s: %s", res.Request.URL.Path, res.Status, b)
			}
			if p.spoil != nil {
				b = p.spoil(res.Request.URL.Path, b)
			}
			res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
			res.Header.Set("Content-Length", fmt.Sprint(len(b)))
			return nil
		},
	}
}

// pause waits a second between tokens: the provider cannot issue two tokens for one person within a second.
func (p *canaille) pause() {
	p.pausing.Lock()
	defer p.pausing.Unlock()
	time.Sleep(time.Until(p.paused.Add(1100 * time.Millisecond)))
	p.paused = time.Now()
}

// spoiled makes the proxy change the answers on a path.
func (p *canaille) spoiled(path string, change func([]byte) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spoil = func(at string, b []byte) []byte {
		if at != path {
			return b
		}
		return change(b)
	}
}

// exchanges returns how many codes were exchanged.
func (p *canaille) exchanges() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.codes
}

// visitor is a browser without scripts: it keeps cookies, follows redirects and sends forms.
type visitor struct {
	t    *testing.T
	c    *http.Client
	stop string // redirects to this host are not followed
	at   *url.URL
	away *url.URL // target of the redirect that was not followed
	code int
	body string
}

func newVisitor(t *testing.T) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t}
	v.c = &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if v.stop != "" && strings.HasPrefix(r.URL.String(), v.stop) {
			v.at = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return v
}

// ask requests a page, or sends a form.
func (v *visitor) ask(method, to string, form url.Values) {
	v.t.Helper()
	var b io.Reader
	if form != nil {
		b = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(v.t.Context(), method, to, b)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	v.at = nil
	res, err := v.c.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	if v.code, v.body = res.StatusCode, string(body); v.at == nil {
		v.at = res.Request.URL
	}
	v.away, _ = res.Location()
	if _, to, ok := strings.Cut(res.Header.Get("Refresh"), "url="); ok {
		next, err := v.at.Parse(to)
		if err != nil {
			v.t.Fatal(err)
		}
		v.ask("GET", next.String(), nil)
	}
}

// submit sends the first form of the page by POST, with its hidden fields and the typed values.
func (v *visitor) submit(typed map[string]string) {
	v.t.Helper()
	doc, err := html.Parse(strings.NewReader(v.body))
	if err != nil {
		v.t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != "form" || !strings.EqualFold(attribute(n, "method"), "post") {
			continue
		}
		form := url.Values{}
		for in := range n.Descendants() {
			if in.Type == html.ElementNode && in.Data == "input" && attribute(in, "type") != "checkbox" {
				form.Set(attribute(in, "name"), attribute(in, "value"))
			}
		}
		for k, x := range typed {
			form.Set(k, x)
		}
		to, err := v.at.Parse(attribute(n, "action"))
		if err != nil {
			v.t.Fatal(err)
		}
		v.ask("POST", to.String(), form)
		return
	}
	v.t.Fatalf("no form at %s: %d\n%s", v.at, v.code, v.body)
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// prove logs in at the provider, up to the redirect back to the site.
func (v *visitor) prove(name string) {
	v.t.Helper()
	v.submit(map[string]string{"login": name})
	v.submit(map[string]string{"password": password})
	if strings.Contains(v.body, `value="accept"`) {
		v.submit(map[string]string{"answer": "accept"})
	}
}

// back returns the URL to which the provider redirects after a login, without following it.
func (v *visitor) back(base, name string) string {
	v.t.Helper()
	v.stop = base + "/login/oidc/callback"
	defer func() { v.stop = "" }()
	v.ask("GET", base+"/login/oidc?to=/boots", nil)
	v.prove(name)
	if !strings.HasPrefix(v.at.String(), v.stop) {
		v.t.Fatalf("the provider sends %s to %s: %d\n%s", name, v.at, v.code, v.body)
	}
	return v.at.String()
}

// location returns the target of the last redirect that was not followed.
func (v *visitor) location(t *testing.T) *url.URL {
	t.Helper()
	if v.away == nil {
		t.Fatalf("not sent anywhere: %d\n%s", v.code, v.body)
	}
	u := *v.away
	return &u
}

// challenge returns the code challenge of a verifier.
func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// foreignTokens makes the provider issue tokens for its other client.
func foreignTokens(t *testing.T, issuer, code, verifier, redirect string) []byte {
	t.Helper()
	form := url.Values{
		"grant_type":    {"authorization_code"},
		"code":          {code},
		"code_verifier": {verifier},
		"redirect_uri":  {redirect},
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", issuer+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth("other", otherSecret)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("tokens for another client: %s %v\n%s", res.Status, err, b)
	}
	return b
}

// unsigned returns an ID token with the same claims and the algorithm "none".
func unsigned(id string) string {
	parts := strings.Split(id, ".")
	if len(parts) != 3 {
		return id
	}
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + "."
}
