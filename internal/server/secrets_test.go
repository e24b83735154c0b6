package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/configfile"
	"pando/internal/fleet"
)

// theSecret is a value that must be only on the nodes that may have it.
const theSecret = "Vq3zT9-the-value-of-the-secret-Xk8"

const mungeKey = "/etc/munge/munge.key"

// secretSite is a site with a secret, a file that has it, and a policy for the default group.
func secretSite(t *testing.T, policy fleet.SecretPolicy, whom ...fleet.Scope) (*site, *api.Client) {
	t.Helper()
	s := startSite(t)
	s.addImage()
	c := operatorOf(t, s)
	if _, err := c.CreateGroup(t.Context(), fleet.Group{Name: "lab"}); err != nil {
		t.Fatal(err)
	}
	if len(whom) == 0 {
		whom = []fleet.Scope{{Kind: fleet.ForGroup, Name: "default"}}
	}
	if _, err := c.SetSecret(t.Context(),
		api.SecretSet{Name: "munge", Value: []byte(theSecret), For: &whom}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetGroup(t.Context(), "default",
		api.GroupSet{Settings: fleet.Settings{Secrets: &policy}}); err != nil {
		t.Fatal(err)
	}
	setConfig(t, c, "all", mungeKey, `{{secret "munge"}}`)
	return s, c
}

// tryRegister registers, and may be refused.
func (n *node) tryRegister(cfg api.BootConfig) (resp api.RegisterResponse, e *api.Error) {
	n.t.Helper()
	e = n.post("/v1/node/hello", "", registrationOf(cfg), &resp)
	return resp, e
}

// has reports whether the answer to a registration contains the secret, and the ssh host key.
func has(t *testing.T, resp api.RegisterResponse) (secret, hostKey bool) {
	t.Helper()
	files := append(assigned(t, resp).Files, resp.Secrets...)
	return content(files, mungeKey) == theSecret, content(files, configfile.HostKeyPath) != ""
}

// With the policy mac a boot gets its secrets, in the part of the answer that is never stored, if the secret is for its
// node.
func TestSecretsByMAC(t *testing.T) {
	s, c := secretSite(t, fleet.SecretsMAC, fleet.Scope{Kind: fleet.ForGroup, Name: "lab"})
	none := []fleet.Scope{{Kind: fleet.ForGroup, Name: "none"}}
	if _, err := c.SetSecret(t.Context(), api.SecretSet{Name: "munge", For: &none}); err == nil {
		t.Error("a secret is for a group that there is not")
	}
	n := s.node(1)
	resp := n.register(n.load())
	if secret, _ := has(t, resp); secret {
		t.Error("a node of another group has the secret")
	}
	if p := assigned(t, resp).Problems; len(p) != 1 || !strings.Contains(p[0], "secret munge is not for node node001") {
		t.Errorf("problems %q", p)
	}
	all := []fleet.Scope{{Kind: fleet.ForNode, Name: "node001"}}
	if _, err := c.SetSecret(t.Context(), api.SecretSet{Name: "munge", For: &all}); err != nil {
		t.Fatal(err)
	}
	s.clock.add(time.Hour)
	resp = n.register(n.load())
	if content(resp.Secrets, mungeKey) != theSecret || content(assigned(t, resp).Files, mungeKey) != "" {
		t.Errorf("secret part %+v", resp.Secrets)
	}
	if i := slices.IndexFunc(resp.Secrets, func(f fleet.File) bool { return f.Path == mungeKey }); i < 0 ||
		resp.Secrets[i].Mode != 0o600 {
		t.Error("what has a secret in it can be read by all users")
	}
}

// An approval is for one boot only, and not for an earlier or later boot or another node's.
func TestSecretsByApproval(t *testing.T) {
	s, c := secretSite(t, fleet.SecretsApprove)
	n, other := s.node(1), s.node(2)
	cfg := n.load()
	resp := n.register(cfg)
	if secret, key := has(t, resp); secret || key {
		t.Error("secrets without approval")
	}
	if p := strings.Join(assigned(t, resp).Problems, "\n"); !strings.Contains(p, "its ssh host key: withheld") ||
		!strings.Contains(p, "pando node approve node001") {
		t.Errorf("problems %s", p)
	}
	if v, err := c.Node(t.Context(), "node001"); err != nil || !strings.Contains(v.Withheld, "waits for an operator") {
		t.Errorf("shown as %q, %v", v.Withheld, err)
	}
	ask := func(session string) []fleet.File {
		t.Helper()
		var got api.NodeConfigResponse
		if e := n.post("/v1/node/config", "Bearer "+session, api.NodeConfigRequest{Boot: cfg.Boot}, &got); e != nil {
			return nil
		}
		return got.Files
	}
	if content(ask(resp.Session), mungeKey) != "" {
		t.Error("asked for later, they come without approval")
	}
	approve := func(name string) {
		t.Helper()
		if _, err := c.ApproveNodes(t.Context(), api.NodeSelection{Select: name}); err != nil {
			t.Fatal(err)
		}
	}
	otherSession := other.register(other.load()).Session
	approve("node002")
	if content(ask(resp.Session), mungeKey) != "" {
		t.Error("another node's approval opens them")
	}
	approve("node001")
	if files := ask(resp.Session); content(files, mungeKey) != theSecret ||
		content(files, configfile.HostKeyPath) == "" {
		t.Error("no secrets after the approval")
	}
	if ask(otherSession) != nil {
		t.Error("another node's session opens this one's")
	}
	s.clock.add(time.Hour)
	cfg = n.load()
	next := n.register(cfg)
	if secret, key := has(t, next); secret || key {
		t.Error("the approval of the boot before counts")
	}
	if ask(resp.Session) != nil {
		t.Error("the session of the boot before is good")
	}
}

// With ,wait a boot that is not approved waits before its registration, and then gets its secrets.
func TestSecretsAreWaitedFor(t *testing.T) {
	s, c := secretSite(t, fleet.SecretsApprove+",wait")
	n := s.node(1)
	cfg := n.load()
	_, e := n.tryRegister(cfg)
	if e == nil || e.Code != api.NotFound || !strings.Contains(e.Message, "waits for its secrets") ||
		e.Hint != "pando node approve node001" {
		t.Fatalf("before approval: %v", e)
	}
	if _, err := c.ApproveNodes(t.Context(), api.NodeSelection{Select: "node001"}); err != nil {
		t.Fatal(err)
	}
	resp, e := n.tryRegister(cfg)
	if e != nil {
		t.Fatal(e)
	}
	if secret, key := has(t, resp); !secret || !key {
		t.Error("no secrets after the approval")
	}
	if _, e := n.tryRegister(cfg); e == nil {
		t.Error("a replayed hello is answered")
	}
}

// tpm is a key as a TPM has it.
type tpm struct{ key *ecdsa.PrivateKey }

func newTPM(t *testing.T) tpm {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return tpm{k}
}

// prove signs a registration.
func (k tpm) prove(t *testing.T, req api.RegisterRequest, serverKey ed25519.PublicKey) *api.TPMProof {
	t.Helper()
	digest := api.TPMDigest(req, base64.StdEncoding.EncodeToString(serverKey))
	r, s, err := ecdsa.Sign(rand.Reader, k.key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	public, err := k.key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return &api.TPMProof{
		Key:       public[1:],
		Signature: append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...),
	}
}

// With the policy tpm an approval is for a machine: it gets its secrets at every boot, and another machine with its MAC
// never does.
func TestSecretsByTPM(t *testing.T) {
	s, c := secretSite(t, fleet.SecretsTPM)
	n := s.node(1)
	right, wrong := newTPM(t), newTPM(t)
	boot := func(change func(*api.RegisterRequest)) (api.BootConfig, api.RegisterResponse) {
		t.Helper()
		s.clock.add(time.Hour)
		cfg := n.load()
		if !cfg.TPM {
			t.Error("the node is not asked for its TPM")
		}
		req := registrationOf(cfg)
		change(&req)
		var resp api.RegisterResponse
		if e := n.post("/v1/node/hello", "", req, &resp); e != nil {
			t.Fatal(e)
		}
		return cfg, resp
	}
	by := func(k tpm) func(*api.RegisterRequest) {
		return func(r *api.RegisterRequest) { r.TPM = k.prove(t, *r, s.keys.ServerPublic()) }
	}
	approve := func() error {
		_, err := c.ApproveNodes(t.Context(), api.NodeSelection{Select: "node001"})
		return err
	}
	got := func(resp api.RegisterResponse) bool {
		secret, key := has(t, resp)
		if secret != key {
			t.Error("half of the secrets")
		}
		return secret
	}
	var old *api.TPMProof
	if _, resp := boot(func(*api.RegisterRequest) {}); got(resp) {
		t.Error("secrets without a TPM")
	}
	if err := approve(); err == nil {
		t.Error("a boot without a proof is approved")
	}
	if _, resp := boot(func(r *api.RegisterRequest) { by(right)(r); old = r.TPM }); got(resp) {
		t.Error("secrets for a TPM that nobody approved")
	}
	if err := approve(); err != nil {
		t.Fatal(err)
	}
	if _, resp := boot(by(right)); !got(resp) {
		t.Error("no secrets for the machine that was approved")
	}
	for name, forge := range map[string]func(*api.RegisterRequest){
		"another TPM":              by(wrong),
		"no TPM":                   func(*api.RegisterRequest) {},
		"a signature of before":    func(r *api.RegisterRequest) { r.TPM = old },
		"its key, other signature": func(r *api.RegisterRequest) { by(wrong)(r); r.TPM.Key = old.Key },
		"signed for another token": func(r *api.RegisterRequest) {
			x := *r
			x.Token = "x"
			by(right)(&x)
			r.TPM = x.TPM
		},
		"zeros": func(r *api.RegisterRequest) {
			r.TPM = &api.TPMProof{Key: make([]byte, 64),
				Signature: make([]byte, 64)}
		},
	} {
		cfg, resp := boot(forge)
		if got(resp) {
			t.Errorf("%s: secrets", name)
		}
		var files api.NodeConfigResponse
		if e := n.post("/v1/node/config", "Bearer "+resp.Session, api.NodeConfigRequest{Boot: cfg.Boot},
			&files); e == nil &&
			content(files.Files, mungeKey) != "" {
			t.Errorf("%s: secrets, asked for later", name)
		}
	}
	boot(by(wrong))
	if err := approve(); err == nil || !strings.Contains(err.Error(), "another key was approved") {
		t.Errorf("another machine is approved over the first: %v", err)
	}
	if _, err := c.ResetNodes(t.Context(), api.NodeSelection{Select: "node001"}); err != nil {
		t.Fatal(err)
	}
	if err := approve(); err != nil {
		t.Fatal(err)
	}
	if _, resp := boot(by(wrong)); !got(resp) {
		t.Error("no secrets for the machine in its place")
	}
}

// Only a node's own session gives access to a secret: not the image port, not the API, not the registry file, not an
// export.
func TestSecretsAreNowhereElse(t *testing.T) {
	s, c := secretSite(t, fleet.SecretsMAC)
	n := s.node(1)
	cfg := n.load()
	if secret, _ := has(t, n.register(cfg)); !secret {
		t.Fatal("the node has no secret")
	}
	var seen bytes.Buffer
	for _, r := range (&Server{}).operatorList() {
		if r.Method != "GET" || strings.HasSuffix(r.Path, "/stream") || strings.HasSuffix(r.Path, "/disks") {
			continue
		}
		path := strings.NewReplacer("{name}", "node001", "{id}", string(cfg.Boot), "{digest}", "x").Replace(r.Path)
		seen.WriteString(get(t, s, path+"?select=node001&for=all&path="+mungeKey))
	}
	for _, path := range []string{"/o/" + mungeKey, "/m/munge", "/boot/script",
		"/boot/" + string(cfg.Boot) + "/initramfs", "/v1/secrets", "/v1/node/config", "/secrets/munge"} {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", s.ports.Data, path))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(&seen, resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(seen.String(), "<secret munge>") && !strings.Contains(seen.String(), "PHNlY3JldCBtdW5nZT4=") {
		t.Error("the API was not asked for what it shows of the file")
	}
	if leaks(seen.Bytes()) {
		t.Error("an answer has the secret in it")
	}
	d, err := c.ExportFleet(t.Context())
	if err != nil || leaks(fmt.Appendf(nil, "%+v", d)) {
		t.Errorf("the export has the secret in it, %v", err)
	}
	s.stop()
	err = filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if leaks(b) {
			t.Errorf("%s has the secret in it", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// leaks reports whether bytes contain the secret, as it is or in base64.
func leaks(b []byte) bool {
	return bytes.Contains(b, []byte(theSecret)) || bytes.Contains(b, []byte("VnEzelQ5LXRoZS12YWx1ZS1vZi10aGUtc2VjcmV0"))
}

// get returns the answer of the operator's socket, also an error.
func get(t *testing.T, s *site, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://pando"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.cfg.Dir, SocketFile))
	}
	resp, err := (&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A machine gets no secret for the hardware that it reports, even if an older release has recorded a secret for a
// class. A class's config file contains a secret only on machines that the secret is for.
func TestSecretsFollowNoHardware(t *testing.T) {
	s, c := secretSite(t, fleet.SecretsMAC, fleet.Scope{Kind: fleet.ForGroup, Name: "lab"})
	class := fleet.Class{Name: "dell", Match: fleet.Match{Vendor: []string{"Dell*"}}}
	if _, err := c.CreateClass(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	whom := []fleet.Scope{{Kind: fleet.ForClass, Name: "dell"}}
	_, err := c.SetSecret(t.Context(), api.SecretSet{Name: "munge", For: &whom})
	wantCode(t, err, api.BadRequest, "name groups or nodes")
	_, err = c.ApplyFleet(t.Context(), api.Apply{Declaration: api.Declaration{
		Secrets: []fleet.Secret{{Name: "munge", For: whom}}}})
	wantCode(t, err, api.BadRequest, "name groups or nodes")
	setConfig(t, c, "class:dell", "/etc/class.key", `{{secret "munge"}}`)
	s.stop()
	db, err := sql.Open("sqlite", filepath.Join(s.cfg.Dir, "registry.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `INSERT INTO secret_scopes VALUES ('munge', 'class:dell')`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	c = operatorOf(t, s)

	boot := func(n *node) api.RegisterResponse {
		t.Helper()
		cfg := n.load()
		req := registrationOf(cfg)
		req.Hardware.Vendor = "Dell Inc."
		var resp api.RegisterResponse
		if e := n.post("/v1/node/hello", "", req, &resp); e != nil {
			t.Fatal(e)
		}
		return resp
	}
	resp := boot(s.node(1))
	if content(resp.Secrets, "/etc/class.key") != "" || content(resp.Secrets, mungeKey) != "" {
		t.Error("a machine that says it is of the class has the secret")
	}
	if p := strings.Join(assigned(t, resp).Problems, "\n"); !strings.Contains(p, "pando secret set munge --for GROUP") {
		t.Errorf("problems %s", p)
	}
	if st, err := c.Status(t.Context()); err != nil || !slices.Equal(st.ClassSecrets, []string{"munge"}) {
		t.Errorf("the status names %v (%v)", st.ClassSecrets, err)
	}
	whom = []fleet.Scope{{Kind: fleet.ForGroup, Name: fleet.DefaultGroup}}
	if _, err := c.SetSecret(t.Context(), api.SecretSet{Name: "munge", For: &whom}); err != nil {
		t.Fatal(err)
	}
	s.clock.add(time.Hour)
	if resp := boot(s.node(1)); content(resp.Secrets, "/etc/class.key") != theSecret {
		t.Errorf("a node that may have it has not the class's file; problems %v", assigned(t, resp).Problems)
	}
}
