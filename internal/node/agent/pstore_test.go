package agent

import (
	"encoding/json"
	"net/http"
	"os"
	"pando/internal/testkit/nodekit"
	"path/filepath"
	"slices"
	"testing"

	"pando/internal/api"
	"pando/internal/rundir"
)

// TestAgentTellsPstore: the log of a dead kernel is reported once, even if the first answer was an error and the
// agent was restarted.
func TestAgentTellsPstore(t *testing.T) {
	var got []string
	status := http.StatusInternalServerError
	url, key := nodekit.TLSServer(t, func(w http.ResponseWriter, r *http.Request) {
		var q api.ReportRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		got = append(got, q.Pstore)
		w.WriteHeader(status)
	})
	dir := t.TempDir()
	if err := rundir.WriteJSON(dir, rundir.SessionName, 0o600,
		rundir.Session{Boot: "0011223344556677", Session: "sess", Control: []string{url}, ServerKey: key}); err != nil {
		t.Fatal(err)
	}
	tell := func() {
		t.Helper()
		a, err := New(dir, "", t.Output())
		if err != nil {
			t.Fatal(err)
		}
		a.pstore(t.Context())
	}
	tell() // there is no log
	if err := os.WriteFile(filepath.Join(dir, rundir.PstoreName), []byte("panic\xff\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tell()
	status = http.StatusNoContent
	tell()
	tell()
	if want := []string{"panic\n", "panic\n"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
