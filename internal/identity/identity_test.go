package identity

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
	"golang.org/x/crypto/ssh"

	"pando/internal/api"
)

var update = flag.Bool("update", false, "write the golden file")

func TestKeysAreMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	first, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if first.SitePublic() != second.SitePublic() || !first.Server.Equal(second.Server) ||
		first.Secret != second.Secret {
		t.Error("the keys changed")
	}
	for file, mode := range map[string]os.FileMode{SiteKeyFile: 0o600, ServerKeyFile: 0o600, SecretFile: 0o600,
		SitePublicFile: 0o644} {
		fi, err := os.Stat(filepath.Join(dir, file))
		if err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", file, fi, err)
		}
	}
	if other, err := Open(filepath.Join(t.TempDir(), "keys")); err != nil || other.SitePublic() == first.SitePublic() {
		t.Error("two sites have one key", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, SitePublicFile))
	var public minisign.PublicKey
	if err := errors.Join(err, public.UnmarshalText(text)); err != nil || public.String() != first.SitePublic() {
		t.Errorf("public key file: %v", err)
	}
}

// TestDamagedKeys: a damaged key file is never replaced.
func TestDamagedKeys(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"server.key missing": func(dir string) error { return os.Remove(filepath.Join(dir, ServerKeyFile)) },
		"secret missing":     func(dir string) error { return os.Remove(filepath.Join(dir, SecretFile)) },
		"32": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, SecretFile),
				[]byte("short"), 0o600)
		},
		"minisign": func(dir string) error { return os.WriteFile(filepath.Join(dir, SiteKeyFile), nil, 0o600) },
		"PRIVATE KEY": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, ServerKeyFile), []byte("x"),
				0o600)
		},
	} {
		dir := t.TempDir()
		if _, err := Open(dir); err != nil {
			t.Fatal(err)
		}
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir)
		var k *KeyError
		if !errors.As(err, &k) || !strings.Contains(err.Error(), name) || !strings.Contains(k.Hint(), "backup") {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	if _, err := Open(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, SitePublicFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err != nil {
		t.Error("the public key can be made again:", err)
	}
}

// fixed returns keys that are the same in every run.
func fixed() Keys {
	k := Keys{Server: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))}
	copy(k.Secret[:], "a secret of thirty-two bytes....")
	return k
}

// TestDerivedIdentities: the derived identities of a node must never change between releases.
func TestDerivedIdentities(t *testing.T) {
	k := fixed()
	private, public := k.HostKey("pc001")
	got := fmt.Sprintf(
		"machine-id %s\npublic %sprivate key file sha256:%x\n",
		k.MachineID("pc001"),
		public,
		sha256.Sum256(private),
	)
	path := filepath.Join("testdata", "pc001.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("identity of pc001 is\n%s\nwant\n%s%v", got, want, err)
	}
	if k.MachineID("pc001") == k.MachineID("pc002") {
		t.Error("two nodes have one machine-id")
	}
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	parsed, comment, _, _, err := ssh.ParseAuthorizedKey(public)
	if err != nil || comment != "root@pc001" || !bytes.Equal(parsed.Marshal(), signer.PublicKey().Marshal()) {
		t.Errorf("the halves of the host key do not fit: %v %q", err, comment)
	}
}

// TestHostKeyIsReadByOpenSSH reads the key with OpenSSH's own program.
func TestHostKeyIsReadByOpenSSH(t *testing.T) {
	tool, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not installed (Debian: openssh-client)")
	}
	private, public := fixed().HostKey("pc001")
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, private, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool, "-y", "-f", path).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != strings.TrimSpace(string(public)) {
		t.Errorf("ssh-keygen: %v: %s", err, out)
	}
}

// TestPinnedTLS connects both sides of the control port.
func TestPinnedTLS(t *testing.T) {
	k := fixed()
	config, err := ServerTLS(k.Server)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }),
	)
	srv.Listener = tls.NewListener(srv.Listener, config) // StartTLS would use its own certificate
	srv.Config.ErrorLog = nil
	srv.Start()
	defer srv.Close()
	get := func(c *tls.Config) error {
		tr := &http.Transport{TLSClientConfig: c}
		defer tr.CloseIdleConnections()
		req, err := http.NewRequestWithContext(
			context.Background(),
			"GET",
			strings.Replace(srv.URL, "http:", "https:", 1),
			nil,
		)
		if err != nil {
			return err
		}
		res, err := tr.RoundTrip(req)
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	if err := get(api.PinnedTLS(k.ServerPublic())); err != nil {
		t.Error(err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var wrong *api.WrongKeyError
	if err := get(api.PinnedTLS(other)); !errors.As(err, &wrong) {
		t.Errorf("a server with another key was believed: %v", err)
	}
	old := api.PinnedTLS(k.ServerPublic())
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	var op *net.OpError
	if err := get(old); err == nil || errors.As(err, &op) && op.Op == "dial" {
		t.Errorf("TLS 1.2 was spoken: %v", err)
	}
}

func TestTokens(t *testing.T) {
	a, b := NewToken(), NewToken()
	if a == b || len(a) != TokenLength || strings.ContainsAny(a, "+/=") {
		t.Errorf("tokens %q %q", a, b)
	}
	if id := NewBootID(); len(id) != 16 || strings.Trim(id, "0123456789abcdef") != "" {
		t.Errorf("boot id %q", id)
	}
}

// TestKeysOfASiteThatRan: lost keys of a site that has run are not silently replaced, because no node and no version
// would trust the new ones.
func TestKeysOfASiteThatRan(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "registry.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Join(data, "keys"))
	var refused *KeyError
	if !errors.As(err, &refused) || !strings.Contains(refused.Hint(), "from its backup") ||
		!strings.Contains(refused.Hint(), "move registry.db away too") {
		t.Errorf("opened: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(data, "keys")); err != nil || len(left) > 0 {
		t.Errorf("made %v (%v)", left, err)
	}
}
