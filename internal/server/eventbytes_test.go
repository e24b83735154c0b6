package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/trace"
)

// A node that sends the largest reports without end fills neither the server's disk nor an answer: the events of its
// boot are limited in bytes, the rest is counted, and the stages that the boot reaches are kept all the same.
func TestNodeThatReportsWithoutEnd(t *testing.T) {
	s := startSite(t)
	s.addImage()
	s.policy(fleet.Open)
	n := s.node(1)
	id, session := s.running(n)
	const reports, each = 24, 24
	sent := 0
	for i := range reports {
		report := api.ReportRequest{Boot: id, Uptime: time.Hour}
		for j := range each {
			e := trace.Event{Stage: trace.Booted, Kind: trace.Info, Offset: time.Minute + time.Duration(i*each+j),
				Message: strings.Repeat("m", 2000), Hint: strings.Repeat("h", 2000), Attrs: map[string]string{}}
			for k := range 16 {
				e.Attrs[fmt.Sprint("attribute", k)] = strings.Repeat("v", 2000)
			}
			report.Events = append(report.Events, e)
		}
		body, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		sent += len(body)
		if e := n.post("/v1/node/events", session, report, nil); e != nil {
			t.Fatal(e)
		}
	}
	down := api.ReportRequest{Boot: id, Uptime: time.Hour,
		Events: []trace.Event{{Stage: trace.Shutdown, Kind: trace.End, Offset: time.Hour}}}
	if e := n.post("/v1/node/events", session, down, nil); e != nil {
		t.Fatal(e)
	}
	detail, err := s.remote(fleet.Viewer).Boot(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := json.Marshal(detail)
	if err != nil {
		t.Fatal(err)
	}
	stored := int64(0)
	for _, name := range []string{registry.EventsFile, registry.EventsFile + "-wal"} {
		if info, err := os.Stat(filepath.Join(s.cfg.Dir, name)); err == nil {
			stored += info.Size()
		}
	}
	t.Logf("%d bytes were reported; the database has %d, the answer %d", sent, stored, len(answer))
	if stored > 10*registry.BytesPerBoot || len(answer) > 2*registry.BytesPerBoot || sent < 18*registry.BytesPerBoot {
		t.Errorf("%d bytes were reported; the database has %d, the answer %d", sent, stored, len(answer))
	}
	told := ""
	for _, e := range detail.Events {
		if strings.Contains(e.Message, "events left out") {
			told = e.Message
		}
	}
	last := detail.Events[len(detail.Events)-1].Stage
	if told == "" || detail.Boot.State != trace.Down || last != trace.Shutdown {
		t.Errorf("told %q; state %s; last event at %s", told, detail.Boot.State, last)
	}
	page, err := s.remote(fleet.Admin).Events(t.Context(), 0, maxPage)
	if err != nil || len(page.Events) < 50 {
		t.Errorf("%d events in a page, %v", len(page.Events), err)
	}
}

// maxPage is more events than an answer has.
const maxPage = 1 << 20
