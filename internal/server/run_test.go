package server

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/trace"
)

// hinted is an error with a hint.
type hinted interface {
	error
	Hint() string
}

func wantHint(t *testing.T, err error, message, hint string) {
	t.Helper()
	var h hinted
	if !errors.As(err, &h) {
		t.Fatalf("error without a hint: %v", err)
	}
	if !strings.Contains(err.Error(), message) || !strings.Contains(h.Hint(), hint) {
		t.Errorf("got %q, hint %q; want %q and %q", err, h.Hint(), message, hint)
	}
}

// TestSecondServer: a second server on the same ports or data directory gets an error, and does not disturb the first.
func TestSecondServer(t *testing.T) {
	s := startSite(t)
	_, err := New(t.Context(), s.cfg)
	wantHint(t, err, fmt.Sprintf("in use by another pando server, process %d", os.Getpid()), "--data")

	second := s.cfg
	second.Dir = filepath.Join(s.dir, "second")
	for what, change := range map[string]func(*Config){
		"image port":   func(c *Config) { c.Data = s.listeners.data.Addr().String() },
		"control port": func(c *Config) { c.Control = s.listeners.control.Addr().String() },
		"TFTP":         func(c *Config) { c.TFTP = s.listeners.tftp.LocalAddr().String() },
	} {
		c := second
		change(&c)
		srv, err := New(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		err = srv.Run(t.Context())
		wantHint(t, err, what, "sport = :")
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	}
	if status, _ := s.node(1).get("/boot/script"); status != 200 {
		t.Error("the first server no longer answers")
	}
}

// TestStaleFiles: lock and socket of a killed server do not keep a new one from starting.
func TestStaleFiles(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, lockFile), []byte("1\n"), 0o600),
		os.WriteFile(filepath.Join(dir, SocketFile), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s := startSite(t, func(c *Config) { c.Dir = dir })
	fi, err := os.Stat(filepath.Join(dir, SocketFile))
	if err != nil || fi.Mode()&os.ModeSocket == 0 || fi.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", fi, err)
	}
	if st, err := api.OverSocket(filepath.Join(dir, SocketFile)).Status(t.Context()); err != nil ||
		st.Release != s.cfg.Release {
		t.Errorf("status over the socket: %+v, %v", st, err)
	}
}

func TestMissingAgent(t *testing.T) {
	c := Config{Dir: t.TempDir(), Agent: "/no/such/file"}
	if _, err := New(t.Context(), c); err == nil || !strings.Contains(err.Error(), "node's program") {
		t.Errorf("error: %v", err)
	}
}

// TestNoAgent: without the node's program nothing hangs, and the boot is told why.
func TestNoAgent(t *testing.T) {
	s := startSite(t, func(c *Config) { c.Agent = "" })
	s.addImage()
	n := s.node(1)
	n.exchange("ipxe")
	if script := n.script(); strings.Contains(script, "initrd") ||
		!strings.Contains(script, "node's program pando-init") {
		t.Errorf("script:\n%s", script)
	}
}

// TestOperatorToken: the control port accepts operators with a token only.
func TestOperatorToken(t *testing.T) {
	s := startSite(t)
	socket := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	made, err := socket.CreateToken(t.Context(), api.TokenCreate{Name: "ci", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	c, err := api.OverTLS(fmt.Sprintf("127.0.0.1:%d", s.ports.Control), made.Secret)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Status(t.Context()); err != nil {
		t.Error(err)
	}
	s.clock.add(2 * time.Hour)
	if _, err := c.Status(t.Context()); !api.IsCode(err, api.Unauthorized) {
		t.Errorf("an expired token: %v", err)
	}
}

// TestNodeIsNoOperator: a node's session gives no access to the operator's API.
func TestNodeIsNoOperator(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	resp := n.register(n.load())
	req, _ := http.NewRequestWithContext(t.Context(), "GET", s.ports.ControlURL(local)+"/v1/nodes", nil)
	req.Header.Set("Authorization", "Bearer "+resp.Session)
	res, err := n.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestWatch: a watcher receives events as they happen, from where it left off.
func TestWatch(t *testing.T) {
	s := startSite(t)
	s.addImage()
	c := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	cfg := s.node(1).load()
	var got []string
	for e, err := range c.Follow(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Stage))
		if e.Boot != cfg.Boot || e.Node == "" {
			t.Errorf("event %+v", e)
		}
		if len(got) == 8 {
			if _, err := s.registry.Append(t.Context(),
				trace.Event{Time: s.now(), Boot: cfg.Boot, Node: "node001", Stage: trace.Init,
					Kind: trace.End}); err != nil {
				t.Fatal(err)
			}
		}
		if e.Stage == trace.Init {
			break
		}
	}
	if len(got) != 9 {
		t.Errorf("watched %v", got)
	}
}

// TestHostileHTTP: malformed requests are refused and disturb nothing.
func TestHostileHTTP(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	id := strings.Repeat("0", 64)
	for path, want := range map[string]int{
		"/o/" + id:                        404,
		"/o/" + strings.Repeat("A", 64):   404,
		"/o/..%2f..%2fkeys%2fsecret":      404,
		"/o/%00":                          404,
		"/m/../../keys/site.key":          404,
		"/m/" + id + ".json":              404,
		"/m/" + id + ".minisig.minisig":   404,
		"/boot/file/secret":               404,
		"/boot/file/..%2fagent":           404,
		"/boot/file/undionly.kpxe":        200,
		"/boot/x/initramfs":               404,
		"/boot/" + id + "/other":          404,
		"/boot/script?mac=zz":             200, // a script that shows the error on the screen
		"/boot/script?mac=%00%00%00":      200,
		"/boot/script?%zz":                200,
		"/v1/nodes":                       404,
		"/keys/secret":                    404,
		"/boot/script?mac=ff-ff-ff-ff-ff": 200,
	} {
		if got, body := n.get(path); got != want {
			t.Errorf("GET %s: status %d, want %d: %.100q", path, got, want, body)
		} else if strings.Contains(path, "script") && !strings.Contains(string(body), "cannot boot") {
			t.Errorf("GET %s: not a script that says what is wrong: %.200q", path, body)
		}
	}
	if got := s.nodes(); len(got) != 0 {
		t.Errorf("nodes from bad requests: %+v", got)
	}
	raw(t, s.listeners.data.Addr(), "PUT /o/"+id+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "405")
	raw(t, s.listeners.data.Addr(), "GET / HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("a", 64<<10)+"\r\n\r\n", "431")
	raw(t, s.listeners.data.Addr(), "\x16\x03\x01 not http\r\n\r\n", "400")
	raw(t, s.listeners.data.Addr(), "GET /o/"+id+" HTTP/1.1\r\nHost: x\r\nRange: bytes=9-1,,-\r\n\r\n", "404")
}

// raw sends bytes and fails unless the answer has a status.
func raw(t *testing.T, addr net.Addr, request, status string) {
	t.Helper()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// The server may answer and close before it has read everything.
	_, _ = c.Write([]byte(request))
	line, err := bufio.NewReader(c).ReadString('\n')
	if !strings.Contains(line, " "+status+" ") {
		t.Errorf("request %.60q: answer %q, %v; want %s", request, line, err, status)
	}
}

// TestHostileReports: reports that are not valid are refused, and long texts are cut.
func TestHostileReports(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	cfg := n.load()
	auth := "Bearer " + n.register(cfg).Session
	for name, req := range map[string]api.ReportRequest{
		"a stage of the server": {Events: []trace.Event{{Stage: trace.DHCP, Kind: trace.End}}},
		"a kind nobody knows":   {Events: []trace.Event{{Stage: trace.Root, Kind: "boom"}}},
		"a mark with blanks":    {Events: []trace.Event{{Stage: "my mark", Kind: trace.End}}},
		"time before the boot":  {Uptime: -time.Second},
		"too many events":       {Events: make([]trace.Event, 1001)},
	} {
		req.Boot = cfg.Boot
		if e := n.post("/v1/node/events", auth, req, nil); e == nil || e.Code != api.BadRequest {
			t.Errorf("%s: %v", name, e)
		}
	}
	if e := n.post("/v1/node/events", auth, map[string]string{"boot": strings.Repeat("x", httpapi.MaxBody)},
		nil); e == nil ||
		e.Code != api.BadRequest {
		t.Errorf("a body of more than %d bytes: %v", httpapi.MaxBody, e)
	}
	lie := trace.Event{
		Seq:    1,
		Boot:   "ffffffffffffffff",
		Node:   "other",
		Time:   time.Unix(0, 0),
		Offset: time.Hour,
		Stage:  trace.Root,
		Kind:   trace.End,
		Message: "\x1b[31m" + strings.Repeat(
			"é",
			httpapi.MaxMessage,
		),
		Bytes: map[string]int64{trace.SourceK: 1 << 60, "server": -5, "peer": 3},
	}
	if e := n.post("/v1/node/events", auth,
		api.ReportRequest{Boot: cfg.Boot, Uptime: time.Second, Events: []trace.Event{lie}}, nil); e != nil {
		t.Fatal(e)
	}
	events, err := s.registry.Events(t.Context(), registry.EventFilter{Boot: cfg.Boot})
	if err != nil {
		t.Fatal(err)
	}
	got := events[len(events)-1]
	if got.Node != "node001" || !got.Time.Equal(s.now()) || len(got.Message) > httpapi.MaxMessage ||
		strings.Contains(got.Message, "\x1b") ||
		len(got.Bytes) != 1 ||
		got.Bytes["peer"] != 3 {
		t.Errorf("recorded %+v", got)
	}
}
