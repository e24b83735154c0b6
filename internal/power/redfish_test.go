package power

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
)

// sushy starts the Redfish emulator of the OpenStack project with one machine, and returns its address.
func sushy(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs("../../build/sushy/bin/sushy-emulator")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("the Redfish emulator sushy-tools is not installed (scripts/install-packages test)")
	}
	dir := t.TempDir()
	out, err := exec.Command("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", dir+"/key",
		"-out", dir+"/cert", "-subj", "/CN=bmc",
		"-days", "2").
		CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	port := freePort(t)
	config := strings.NewReplacer("{port}", port, "{dir}", dir).Replace(`SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_SSL_CERT = '{dir}/cert'
SUSHY_EMULATOR_SSL_KEY = '{dir}/key'
SUSHY_EMULATOR_STATE_DIR = '{dir}'
SUSHY_EMULATOR_AUTH_FILE = '{dir}/users'
SUSHY_EMULATOR_FAKE_SYSTEMS = [{'uuid': '5ac06d22-2fd7-4c8c-b8a5-52be6fc6e0a1', 'name': 'pc001', 'power_state': 'Off', 'nics': []}]
`)
	users := "admin:$2b$05$s3Zn9qRWb5vWD7V5F1uLc.byYPjoz4WzEGD7x8fRVXmGLUpQoMfEK\n" // sesame, as htpasswd -B writes it
	for name, text := range map[string]string{"conf": config, "users": users} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	foreign(t, dir, program, "--config", filepath.Join(dir, "conf"))
	return "127.0.0.1:" + port
}

func TestRedfishWithAnEmulator(t *testing.T) {
	r := Request{
		Node:     "pc001",
		To:       fleet.PowerTo{Method: fleet.PowerRedfish, Host: sushy(t), User: "admin", TLS: "any"},
		Password: "sesame",
	}
	do := func(a Action) (State, error) {
		r.Action = a
		return (Switch{}).Do(t.Context(), r)
	}
	become := func(want State) {
		t.Helper()
		var state State
		var err error
		for start := time.Now(); time.Since(start) < 40*time.Second; time.Sleep(200 * time.Millisecond) {
			if state, err = do(Status); err == nil && state == want {
				return
			}
		}
		t.Fatalf("it is %s and not %s: %v", state, want, err)
	}
	become(IsOff)
	r.Network = true
	if s, err := do(On); err != nil || s != IsOff {
		t.Fatalf("on: was %s, %v", s, err)
	}
	become(IsOn)
	c := newRedfishClient(r)
	var boot struct {
		Boot struct {
			BootSourceOverrideTarget, BootSourceOverrideEnabled, BootSourceOverrideMode string
		}
	}
	path, err := c.find(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.call(t.Context(), "GET", path, "", nil, &boot); err != nil ||
		boot.Boot.BootSourceOverrideTarget != "Pxe" ||
		boot.Boot.BootSourceOverrideMode != "UEFI" {
		t.Errorf("boot override: %+v, %v", boot, err)
	}
	if s, err := do(Cycle); err != nil || s != IsOn {
		t.Errorf("cycle: was %s, %v", s, err)
	}
	become(IsOn)
	if s, err := do(Off); err != nil || s != IsOn {
		t.Errorf("off: was %s, %v", s, err)
	}
	become(IsOff)
	r.Password = "wrong"
	if _, err := do(Status); err == nil || !strings.Contains(err.Error(), "user and password") {
		t.Errorf("with a wrong password: %v", err)
	}
	r.Password, r.To.TLS = "sesame", ""
	if _, err := do(Status); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody trusts: %v", err)
	}
	r.To.TLS = "sha256:" + strings.Repeat("00", 32)
	if _, err := do(Status); err == nil || !strings.Contains(err.Error(), "not the one of its setting") {
		t.Errorf("another certificate: %v", err)
	}
}

// vendor behaves like real controllers: it requires If-Match, supports few resets, and has a mode that cannot be
// changed.
type vendor struct {
	state  string
	resets []string
	noMode bool
	calls  []string
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := map[string]any{}
	_ = json.NewDecoder(r.Body).Decode(&body)
	refuse := func(status int, text string) {
		w.WriteHeader(status)
		_, _ = w.Write(
			[]byte(`{"error": {"message": "A general error", "@Message.ExtendedInfo": [{"Message": "` + text + `"}]}}`),
		)
	}
	switch {
	case r.Method == "GET" && r.URL.Path == "/redfish/v1/Systems":
		_, _ = w.Write([]byte(`{"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]}`))
	case r.Method == "GET":
		w.Header().Set("ETag", `W/"7"`)
		_ = json.NewEncoder(w).
			Encode(map[string]any{"PowerState": v.state,
				"Boot": map[string]any{"BootSourceOverrideTarget@Redfish.AllowableValues": []string{"Hdd", "UefiHttp"}},
				"Actions": map[string]any{
					"#ComputerSystem.Reset": map[string]any{
						"target":                            "/redfish/v1/Systems/1/Actions/Reset",
						"ResetType@Redfish.AllowableValues": v.resets,
					},
				}})
	case r.Method == "PATCH" && r.Header.Get("If-Match") != `W/"7"`:
		refuse(http.StatusPreconditionFailed, "give the tag")
	case r.Method == "PATCH":
		boot, _ := body["Boot"].(map[string]any)
		if _, mode := boot["BootSourceOverrideMode"]; mode && v.noMode {
			refuse(http.StatusBadRequest, "the mode is not to be changed")
			return
		}
		v.calls = append(v.calls, "boot "+boot["BootSourceOverrideTarget"].(string))
		w.WriteHeader(http.StatusNoContent)
	default:
		v.calls = append(v.calls, body["ResetType"].(string))
		w.WriteHeader(http.StatusNoContent)
	}
}

func TestRedfishOfDifferentVendors(t *testing.T) {
	v := &vendor{state: "Off", resets: []string{"ForceOn", "ForceOff", "PowerCycle"}, noMode: true}
	srv := httptest.NewTLSServer(v)
	defer srv.Close()
	sum := sha256.Sum256(srv.Certificate().Raw)
	r := Request{
		Node:    "pc001",
		Network: true,
		To: fleet.PowerTo{Method: fleet.PowerRedfish, Host: srv.Listener.Addr().String(), User: "admin",
			TLS: "sha256:" + hex.EncodeToString(sum[:])},
		Password: "x",
	}
	do := func(a Action, state string) error {
		v.state, r.Action = state, a
		_, err := (Switch{}).Do(t.Context(), r)
		return err
	}
	for _, step := range []struct {
		do    Action
		state string
	}{{On, "Off"}, {On, "PoweringOff"}, {Cycle, "On"}, {Cycle, "Off"}} {
		if err := do(step.do, step.state); err != nil {
			t.Errorf("%s: %v", step.do, err)
		}
	}
	if got := strings.Join(v.calls, ", "); got != "boot UefiHttp, ForceOn, boot UefiHttp, PowerCycle, boot "+
		"UefiHttp, ForceOn" {
		t.Error(got)
	}
	if err := do(Off, "On"); err == nil ||
		!strings.Contains(err.Error(), "no way to shut down, only ForceOn, ForceOff, PowerCycle") {
		t.Error(err)
	}
	r.Force = true
	if err := do(Off, "On"); err != nil {
		t.Error(err)
	}
}

// TestRedfishGoesNowhereElse: a hostile controller cannot make the server send the password to another host.
func TestRedfishGoesNowhereElse(t *testing.T) {
	var otherHost bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { otherHost = true }))
	defer other.Close()
	for name, answer := range map[string]http.HandlerFunc{
		"member": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"Members": [{"@odata.id": "` + other.URL + `/redfish/x"}]}`))
		},
		"host": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"Members": [{"@odata.id": "@` + other.Listener.Addr().String() + `/redfish/"}]}`))
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/redfish/", http.StatusFound)
		},
		"redirect by //host": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "//"+other.Listener.Addr().String()+"/redfish/")
			w.WriteHeader(http.StatusPermanentRedirect)
		},
		"redirect to another scheme": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "https://"+r.Host+"/redfish/v1/Systems/")
			w.WriteHeader(http.StatusMovedPermanently)
		},
		"redirect for ever": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", r.URL.Path+"/")
			w.WriteHeader(http.StatusMovedPermanently)
		},
		"redirect to what is no Redfish": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/login.html")
			w.WriteHeader(http.StatusFound)
		},
	} {
		srv := httptest.NewServer(answer)
		r := Request{
			Action: Status,
			To: fleet.PowerTo{
				Method: fleet.PowerRedfish,
				Host:   srv.Listener.Addr().String(),
				User:   "admin",
				Plain:  true,
			},
		}
		if _, err := (Switch{}).Do(t.Context(), r); err == nil || otherHost {
			t.Errorf("%s: %v, went elsewhere: %v", name, err, otherHost)
		}
		srv.Close()
	}
}

// moved is a controller that redirects every request to another path of its own, like iLO and Lenovo's XCC, and sends a
// system's tag only in the body, like AMI's.
type moved struct {
	status int    // status of the redirect
	host   string // in Location: "" is a path only
	tags   []string
	strict func(tag string) bool // whether it accepts a value of If-Match
	header bool                  // it sends the tag in the header too
	noMode bool                  // it has no mode of the boot override
	reads  int
	calls  []string
}

func (m *moved) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := r.BasicAuth(); user != "admin" || password != "sesame" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if path, ok := strings.CutSuffix(r.URL.Path, "/"); !ok {
		w.Header().Set("Location", m.host+path+"/")
		w.WriteHeader(m.status)
		return
	}
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.Method == "GET" && r.URL.Path == "/redfish/v1/Systems/":
		_, _ = w.Write([]byte(`{"Members": [{"@odata.id": "/redfish/v1/Systems/Self"}]}`))
	case r.Method == "GET":
		tag := m.tags[min(m.reads, len(m.tags)-1)]
		m.reads++
		if m.header {
			w.Header().Set("ETag", tag)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"@odata.etag": tag, "PowerState": "Off",
			"Actions": map[string]any{"#ComputerSystem.Reset": map[string]any{
				"target": "/redfish/v1/Systems/Self/Actions/ComputerSystem.Reset"}}})
	case r.Method == "PATCH" && !m.strict(r.Header.Get("If-Match")):
		m.calls = append(m.calls, "refused "+r.Header.Get("If-Match"))
		status := http.StatusPreconditionFailed
		if r.Header.Get("If-Match") == "" {
			status = http.StatusPreconditionRequired
		}
		w.WriteHeader(status)
	case r.Method == "PATCH" && m.noMode && strings.Contains(string(body), "Mode"):
		m.calls = append(m.calls, "no mode")
		w.WriteHeader(http.StatusBadRequest)
	default:
		m.calls = append(m.calls, r.Method+" "+r.Header.Get("If-Match")+" "+string(body))
		w.WriteHeader(http.StatusNoContent)
	}
}

// A redirect to another path of the same controller is followed with method, body and password. The tag is found in the
// body; after a refusal the tag is read again, and the refused value is not sent again.
func TestRedfishOfMovedPathsAndTags(t *testing.T) {
	const (
		patch = ` {"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI",` +
			`"BootSourceOverrideTarget":"Pxe"}}`
		reset = `POST  {"ResetType":"On"}`
	)
	exact := func(want string) func(string) bool { return func(got string) bool { return got == want } }
	for name, tt := range map[string]struct {
		m    moved
		want []string
	}{
		"iLO": {moved{status: 308, tags: []string{`"1"`}, strict: exact(`"1"`)}, []string{`PATCH "1"` + patch, reset}},
		"XCC": {moved{status: 301, tags: []string{`"1"`}, strict: exact(`"1"`)}, []string{`PATCH "1"` + patch, reset}},
		"302": {moved{status: 302, tags: []string{`"1"`}, strict: exact(`"1"`)}, []string{`PATCH "1"` + patch, reset}},
		"changed meanwhile": {moved{status: 307, tags: []string{`"1"`, `"2"`}, strict: exact(`"2"`)},
			[]string{`refused "1"`, `PATCH "2"` + patch, reset}},
		"strong only": {moved{status: 307, tags: []string{`W/"1"`}, header: true, strict: exact(`"1"`)},
			[]string{`refused W/"1"`, `PATCH "1"` + patch, reset}},
		"strong only, no mode": {
			moved{status: 307, tags: []string{`W/"1"`}, header: true, strict: exact(`"1"`), noMode: true},
			[]string{`refused W/"1"`, "no mode",
				`PATCH "1"` + strings.Replace(patch, `"BootSourceOverrideMode":"UEFI",`, "", 1), reset}},
		"any": {moved{status: 307, tags: []string{`"1"`}, strict: exact(`*`)},
			[]string{`refused "1"`, `PATCH *` + patch, reset}},
		"none is right": {moved{status: 307, tags: []string{`"1"`}, strict: exact(`x`)},
			[]string{`refused "1"`, `refused *`}},
	} {
		for _, absolute := range []bool{false, true} {
			m := tt.m
			srv := httptest.NewServer(&m)
			if absolute {
				m.host = srv.URL
			}
			_, err := (Switch{}).Do(t.Context(), Request{Action: On, Network: true, Password: "sesame",
				To: fleet.PowerTo{Method: fleet.PowerRedfish, Host: srv.Listener.Addr().String(), User: "admin",
					Plain: true}})
			srv.Close()
			if wrong := !slices.Contains(tt.want, reset); wrong != (err != nil) || !slices.Equal(m.calls, tt.want) {
				t.Errorf("%s: %v, %q, want %q", name, err, m.calls, tt.want)
			}
		}
	}
}

// FuzzRedfishAnswer: no answer of a controller makes the server fail.
func FuzzRedfishAnswer(f *testing.F) {
	f.Add(
		[]byte(
			`{"PowerState": "On", "Actions": {"#ComputerSystem.Reset": {"target": "/redfish/v1/Systems/1/Actions/Reset", "ResetType@Redfish.AllowableValues": ["On"]}}}`,
		),
	)
	f.Add([]byte(`{"error": {"message": "no", "@Message.ExtendedInfo": [{"Message": "not so"}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s system
		_ = json.Unmarshal(b, &s)
		for do := range resets {
			if kind, err := s.reset(do); err == nil && len(s.Actions.Reset.Types) > 0 && kind == "" {
				t.Error("a reset without a name")
			}
		}
		if path, err := local(s.Actions.Reset.Target); err == nil && !strings.HasPrefix(path, "/redfish/") {
			t.Errorf("%q was taken for a path", path)
		}
		if text := says(b); len(text) > 600 || strings.ContainsAny(text, "\n\r") {
			t.Errorf("%q is told to people", text)
		}
	})
}
