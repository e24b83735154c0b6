package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/journal"
	"pando/internal/server/logs"
)

// journalSite is a site that keeps journals.
func journalSite(t testing.TB, change ...func(*Config)) *site {
	t.Helper()
	if _, err := journal.Find(); err != nil {
		t.Skip(err)
	}
	return startSite(t, append(change, func(c *Config) { c.Logs = logs.On })...)
}

// sending holds the files with which a node may send its journal.
type sending struct {
	*node
	boot           fleet.BootID
	url            string
	key, cert, ca  string
	program, state string
}

// sends boots a node and returns its files for sending.
func (n *node) sends() *sending {
	n.t.Helper()
	cfg := n.load()
	resp := n.register(cfg)
	var a fleet.Assignment
	if err := json.Unmarshal(resp.Assignment, &a); err != nil {
		n.t.Fatal(err)
	}
	dir := n.t.TempDir()
	s := &sending{
		node:    n,
		boot:    cfg.Boot,
		state:   filepath.Join(dir, "state"),
		program: "/lib/systemd/systemd-journal-upload",
	}
	put := func(f fleet.File) string {
		path := filepath.Join(dir, filepath.Base(f.Path))
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			n.t.Fatal(err)
		}
		return path
	}
	for _, f := range slices.Concat(a.Files, resp.Secrets) {
		switch f.Path {
		case logs.KeyFile:
			s.key = put(f)
		case logs.CertFile:
			s.cert = put(f)
		case logs.AuthorityFile:
			s.ca = put(f)
		case "/etc/systemd/system/pando-journal.service":
			s.url = regexp.MustCompile(`--url=(\S+)`).FindStringSubmatch(string(f.Data))[1]
		}
	}
	for _, f := range a.Files {
		if f.Path == logs.KeyFile {
			n.t.Error("the key is among the files that may be kept on a disk")
		}
	}
	if s.key == "" || s.cert == "" || s.ca == "" || s.url == "" {
		n.t.Fatalf("the node cannot send its journal: %+v", s)
	}
	return s
}

// upload sends a stream like systemd-journal-upload.
func (s *sending) upload(body io.Reader) (int, string) {
	s.t.Helper()
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		s.t.Fatal(err)
	}
	ca, err := os.ReadFile(s.ca)
	if err != nil {
		s.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	tr := &http.Transport{
		TLSClientConfig: &tls.Config{
			RootCAs:      roots,
			Certificates: []tls.Certificate{pair},
			MinVersion:   tls.VersionTLS13,
		},
	}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(s.t.Context(), "POST", s.url+"/upload", body)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// journalEntry returns an entry as systemd-journal-upload sends it.
func journalEntry(n int, unit, text string) string {
	at := time.Date(2026, 11, 21, 12, 0, n, 0, time.UTC).UnixMicro()
	return fmt.Sprintf(
		"__CURSOR=s=%032x;i=%x;b=0\n__REALTIME_TIMESTAMP=%d\n__MONOTONIC_TIMESTAMP=%d\n_BOOT_ID=%032x\n_MACHINE_ID=%032x\nPRIORITY=6\n"+
			"_SYSTEMD_UNIT=%s\nSYSLOG_IDENTIFIER=%s\n_PID=7\nMESSAGE=%s\n\n",
		1,
		n,
		at,
		n*1000000,
		2,
		3,
		unit,
		strings.TrimSuffix(unit, ".service"),
		text,
	)
}

// logs reads a journal like an operator.
func (s *site) logs(node string, q api.JournalQuery) api.Journal {
	s.t.Helper()
	j, err := api.OverHandler(s.socketRoutes()).NodeLogs(s.t.Context(), node, q)
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

func textsOf(j api.Journal) []string {
	out := []string{}
	for _, l := range j.Lines {
		out = append(out, l.Text)
	}
	return out
}

// TestJournalUpload: the real systemd-journal-upload, with a node's files, sends a journal once, goes on where it was,
// and its lines are found by node, boot and unit.
func TestJournalUpload(t *testing.T) {
	s := journalSite(t)
	s.addImage()
	n := s.node(1).sends()
	if _, err := os.Stat(n.program); err != nil {
		t.Skip("systemd-journal-upload is not installed (Debian: systemd-journal-remote)")
	}
	s.journals.Watch(s.nameOf(n.mac)) // uploads are answered without a pause
	dir := t.TempDir()
	write := func(from, to int) {
		t.Helper()
		var b bytes.Buffer
		for i := from; i <= to; i++ {
			b.WriteString(journalEntry(i, []string{"ssh.service", "cron.service"}[i%2], fmt.Sprint("line ", i)))
		}
		remote, err := journal.Find()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), remote, "--output="+filepath.Join(dir, "system.journal"), "-")
		cmd.Stdin = &b
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	send := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		cmd := exec.CommandContext(
			ctx,
			n.program,
			append([]string{"--url=" + n.url, "--key=" + n.key, "--cert=" + n.cert, "--trust=" + n.ca,
				"--save-state=" + n.state, "--directory=" + dir, "--follow=no"}, args...)...)
		cmd.Env = append(os.Environ(), "SYSTEMD_LOG_TARGET=console")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	write(1, 300)
	if out, err := send(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	name := s.nameOf(n.mac)
	if got := textsOf(s.logs(name, api.JournalQuery{Last: 1000})); len(got) != 300 || got[0] != "line 1" ||
		got[299] != "line 300" {
		t.Fatalf("%d lines: %.200q", len(got), got)
	}
	write(301, 303)
	for range 2 {
		if out, err := send(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	j := s.logs(name, api.JournalQuery{Unit: "ssh", Last: 2})
	if got := textsOf(j); !slices.Equal(got, []string{"line 300", "line 302"}) ||
		!slices.Equal(j.Units, []string{"cron.service", "ssh.service"}) ||
		j.Boot != n.boot ||
		len(j.Boots) != 1 ||
		j.Boots[0].Boot != n.boot {
		t.Errorf("%+v", j)
	}
	if got := textsOf(s.logs(name, api.JournalQuery{Boot: string(n.boot), Grep: "line 1$"})); !slices.Equal(
		got,
		[]string{"line 1"},
	) {
		t.Errorf("%q", got)
	}
	// A node does not send to a server of another authority.
	other, err := s.keys.Upload(string(n.boot))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(n.ca, other.Certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	write(304, 304)
	if out, err := send(); err == nil || !strings.Contains(out, "certificate") {
		t.Errorf("it trusts anybody: %v\n%s", err, out)
	}
}

// nameOf returns the name of the node with a MAC.
func (s *site) nameOf(mac fleet.MAC) string {
	s.t.Helper()
	n, err := s.discovery.Node(s.t.Context(), mac)
	if err != nil {
		s.t.Fatal(err)
	}
	return n.Name
}

// TestJournalRights: only the latest boot of a node may send, and only as that node. Refusals are reported.
func TestJournalRights(t *testing.T) {
	s := journalSite(t)
	s.addImage()
	n := s.node(1).sends()
	name := s.nameOf(n.mac)
	s.journals.Watch(name)
	if j := s.logs(name, api.JournalQuery{}); !strings.Contains(j.Missing, "has not come to the image's own start") ||
		j.Boot != n.boot {
		t.Errorf("%+v", j)
	}
	if code, text := n.upload(strings.NewReader(journalEntry(1, "a.service",
		"first boot") + "MESSAGE\nxxxxxxxxxx")); code != http.StatusBadRequest {
		t.Errorf("%d %s", code, text)
	}
	if code, text := n.upload(strings.NewReader(journalEntry(1, "a.service", "again") + journalEntry(2, "a.service",
		"second line"))); code != http.StatusAccepted {
		t.Errorf("%d %s", code, text)
	}
	if got := textsOf(s.logs(name, api.JournalQuery{})); !slices.Equal(got, []string{"first boot", "second line"}) {
		t.Errorf("%q", got)
	}
	// A client without a certificate, or with a forged one, is refused.
	forged := *n
	key, err := s.keys.Upload("ffffffffffffffff")
	if err != nil {
		t.Fatal(err)
	}
	forged.key, forged.cert = filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "cert")
	if os.WriteFile(forged.key, key.Key, 0o600) != nil || os.WriteFile(forged.cert, key.Certificate, 0o600) != nil {
		t.Fatal("write")
	}
	if code, text := forged.upload(strings.NewReader(journalEntry(3, "a.service",
		"forged"))); code != http.StatusUnauthorized {
		t.Errorf("a boot that is not: %d %s", code, text)
	}
	var e *api.Error
	if e = n.post(logs.NodePath+"/upload", "", struct{}{}, nil); e == nil || e.Code != api.Unauthorized {
		t.Errorf("without a certificate: %v", e)
	}
	// The next boot may send then, and the journal of the one before can still be read.
	s.clock.add(time.Hour)
	next := s.node(1).sends()
	if code, _ := n.upload(strings.NewReader(journalEntry(3, "a.service", "from the "+
		"grave"))); code != http.StatusUnauthorized {
		t.Errorf("an older boot: %d", code)
	}
	if code, text := next.upload(strings.NewReader(journalEntry(1, "a.service",
		"second boot"))); code != http.StatusAccepted {
		t.Errorf("%d %s", code, text)
	}
	if got := textsOf(s.logs(name, api.JournalQuery{})); !slices.Equal(got, []string{"second boot"}) {
		t.Errorf("%q", got)
	}
	if got := textsOf(s.logs(name, api.JournalQuery{Boot: "-1"})); !slices.Equal(
		got,
		[]string{"first boot", "second line"},
	) {
		t.Errorf("%q", got)
	}
	c := api.OverHandler(s.socketRoutes())
	for _, q := range []api.JournalQuery{{Boot: "-2"}, {Boot: "../../x"}, {Boot: "0123456789abcdef"}} {
		if _, err := c.NodeLogs(t.Context(), name, q); !api.IsCode(err, api.NotFound) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, q := range []api.JournalQuery{{Grep: "("}, {Priority: "loud"}, {Grep: strings.Repeat("x", 2000)}} {
		if _, err := c.NodeLogs(t.Context(), name, q); !api.IsCode(err, api.BadRequest) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	// A renamed node keeps its journals.
	renamed := "web7"
	if _, err := c.SetNodes(t.Context(), api.NodeSet{Select: name, Name: &renamed}); err != nil {
		t.Fatal(err)
	}
	if got := textsOf(s.logs(renamed, api.JournalQuery{Boot: "-1"})); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// TestJournalIsFollowed: lines reach an operator as they arrive, and the node's uploads are answered sooner then.
func TestJournalIsFollowed(t *testing.T) {
	s := journalSite(t)
	s.addImage()
	n := s.node(1).sends()
	name := s.nameOf(n.mac)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lines := make(chan string)
	go func() {
		for l, err := range api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile)).FollowLogs(ctx, name,
			api.JournalQuery{Grep: "wanted"}) {
			if err != nil {
				return
			}
			lines <- l.String()
		}
	}()
	for i := range 3 {
		begun := time.Now()
		if code, text := n.upload(strings.NewReader(journalEntry(2*i+1, "a.service",
			fmt.Sprint("wanted ", i)) + journalEntry(2*i+2, "a.service", "other"))); code != http.StatusAccepted {
			t.Fatalf("%d %s", code, text)
		}
		select {
		case got := <-lines:
			if want := fmt.Sprintf("a[7]: wanted %d", i); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatal("nothing came")
		}
		if took := time.Since(begun); took > logs.Pause {
			t.Errorf("the node waits %s while somebody looks on", took)
		}
	}
}

// TestLastWords: complete lines of a node that dies while it sends are kept.
func TestLastWords(t *testing.T) {
	s := journalSite(t)
	s.addImage()
	n := s.node(1).sends()
	name := s.nameOf(n.mac)
	r, w := io.Pipe()
	gone := make(chan struct{})
	go func() { defer close(gone); n.upload(r) }()
	if _, err := io.WriteString(w,
		journalEntry(1, "a.service", "the last words")+journalEntry(2, "a.service", "cut off")[:120]); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // until the upload has started
	w.CloseWithError(io.ErrClosedPipe)
	<-gone
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if got := textsOf(s.logs(name, api.JournalQuery{})); slices.Equal(got, []string{"the last words"}) {
			return
		} else if time.Since(begun) > 20*time.Second {
			t.Fatalf("%q", got)
		}
	}
}

// TestJournalsAreOff: without journals nodes get no files for sending, and uploads are refused.
func TestJournalsAreOff(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	cfg := n.load()
	resp := n.register(cfg)
	if bytes.Contains(resp.Assignment, []byte("pando-journal")) {
		t.Error("the node is told to send its journal")
	}
	if e := n.post(logs.NodePath+"/upload", "", struct{}{}, nil); e == nil || e.Code != api.NotFound {
		t.Errorf("%v", e)
	}
	if j := s.logs(s.nameOf(n.mac), api.JournalQuery{}); !strings.Contains(j.Missing, "--logs on") {
		t.Errorf("%+v", j)
	}
	if st, err := api.OverHandler(s.socketRoutes()).Status(t.Context()); err != nil || st.Logs.State != api.LogsOff {
		t.Errorf("%+v, %v", st.Logs, err)
	}
}

// TestJournalsWaitForTheBoot: the unit that sends a journal starts after the boot, or when the boot takes long, and not
// with the first services.
func TestJournalsWaitForTheBoot(t *testing.T) {
	s := journalSite(t)
	s.addImage()
	n := s.node(1)
	var a fleet.Assignment
	if err := json.Unmarshal(n.register(n.load()).Assignment, &a); err != nil {
		t.Fatal(err)
	}
	starts := map[string]string{}
	for _, f := range a.Files {
		if strings.Contains(f.Path, "pando-journal") {
			starts[strings.TrimPrefix(f.Path, "/etc/systemd/system/")] = f.Target + string(f.Data)
		}
	}
	const boot = "pando-booted.service.d/pando-journal.conf"
	if !strings.Contains(starts[boot], "systemctl start --no-block pando-journal.service") {
		t.Errorf("a boot that is over does not start it: %q", starts[boot])
	}
	if starts["sysinit.target.wants/pando-journal.timer"] != "/etc/systemd/system/pando-journal.timer" ||
		starts["pando-journal.timer"] == "" {
		t.Errorf("a boot that takes long does not start it: %v", slices.Sorted(maps.Keys(starts)))
	}
	delete(starts, boot)
	for path := range starts {
		if strings.HasSuffix(path, "/pando-journal.service") {
			t.Errorf("%s starts it with other services", path)
		}
	}
}

// TestAnImageCannotSend: if journals are kept, a version without the program that sends them is marked with the package
// that it needs.
func TestAnImageCannotSend(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("kept %t", kept), func(t *testing.T) {
			start := journalSite
			if !kept {
				start = startSite
			}
			s := start(t)
			_, d := s.addImage()
			v, err := s.store.GetVersion(d)
			if err != nil {
				t.Fatal(err)
			}
			if v.Provenance,
				err = (image.Provenance{Format: 1, Lacks: []string{image.LacksUploader}}).Encode(); err == nil {
				_, err = s.store.PutVersion(v)
			}
			i, e := api.OverHandler(s.socketRoutes()).Image(t.Context(), "lab")
			if err != nil || e != nil || len(i.Versions) != 1 ||
				strings.Contains(i.Versions[0].NoLogs, "package systemd-journal-remote") != kept {
				t.Errorf("journals are kept %v: %+v, %v, %v", kept, i.Versions, err, e)
			}
		})
	}
}

// TestJournalsAreCounted: metrics and status count accepted and refused uploads, and show that the disk is full.
func TestJournalsAreCounted(t *testing.T) {
	s := journalSite(t, withDashboard)
	s.addImage()
	s.series("pando_journal_up", "1")
	s.series("pando_journal_last_upload_timestamp_seconds", "0")
	n := s.node(1).sends()
	s.journals.Watch(s.nameOf(n.mac))
	for _, c := range []struct {
		body string
		want int
	}{
		{journalEntry(1, "a.service", "one") + journalEntry(2, "a.service", "two"), http.StatusAccepted},
		{journalEntry(2, "a.service", "two") + journalEntry(3, "a.service", "three"), http.StatusAccepted},
		{"MESSAGE\nxxxxxxxxxx", http.StatusBadRequest},
	} {
		if code, text := n.upload(strings.NewReader(c.body)); code != c.want {
			t.Errorf("%d %s, want %d", code, text, c.want)
		}
	}
	s.series("pando_journal_entries_total", "3")
	s.series(`pando_journal_uploads_total{outcome="taken"}`, "2")
	s.series(`pando_journal_uploads_total{outcome="malformed"}`, "1")
	s.series("pando_journal_disk_full", "0")
	s.journals.Dir().Free = 1 << 60 // no disk has so much
	for range 2 {
		if code, text := n.upload(strings.NewReader(journalEntry(4, "a.service",
			"four"))); code != http.StatusInsufficientStorage {
			t.Errorf("%d %s", code, text)
		}
	}
	s.series("pando_journal_disk_full", "1")
	s.series(`pando_journal_uploads_total{outcome="disk_full"}`, "2")
	status, err := api.OverHandler(s.socketRoutes()).Status(t.Context())
	if l := status.Logs; err != nil || l.State != api.LogsOn || !l.Full || l.Entries != 3 || l.Held == 0 ||
		l.Bound != journal.DefaultTotal ||
		l.Last.IsZero() ||
		l.Refused() != 3 {
		t.Errorf("%+v, %v", l, err)
	}
	s.journals.Dir().Free = 1
	if code, text := n.upload(strings.NewReader(journalEntry(4, "a.service", "four"))); code != http.StatusAccepted {
		t.Errorf("%d %s", code, text)
	}
	s.series("pando_journal_disk_full", "0")
	s.series("pando_journal_entries_total", "4")
}
