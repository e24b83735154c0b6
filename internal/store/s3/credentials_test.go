package s3

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCredentialsThatOthersHave: a file of keys that others may read is refused, if keys would be taken from it.
func TestCredentialsThatOthersHave(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY",
		"AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, "")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := checkCredentials(); err != nil {
		t.Errorf("without a file: %v", err)
	}
	file := filepath.Join(home, ".aws", "credentials")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("[default]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkCredentials(); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Config{URL: "s3://images", Endpoint: "http://127.0.0.1:9"})
	if err == nil || !strings.Contains(err.Error(), "others may read or write it") {
		t.Fatalf("a file that all may read: %v", err)
	}
	if h, ok := err.(interface{ Hint() string }); !ok || !strings.Contains(h.Hint(), "chmod 0600 "+file) {
		t.Errorf("the hint of %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "key")
	if err := checkCredentials(); err != nil {
		t.Errorf("with keys in the environment: %v", err)
	}
}
