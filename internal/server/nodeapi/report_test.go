package nodeapi

import (
	"encoding/json"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/trace"
)

// FuzzReport: whatever a node reports, its recorded events belong to its boot, are limited, and have a stage that a
// node may report.
func FuzzReport(f *testing.F) {
	for _, s := range []string{
		`{"boot":"0123456789abcdef","uptime":2000000000,"events":[{"stage":"init","kind":"end","attrs":{"kernel":"4s"}}]}`,
		`{"uptime":1,"events":[{"stage":"root","kind":"fail","offset":-5,"message":"\u001b[31m","bytes":{"k":9,"server":-1}}]}`,
		`{"events":[{"stage":"dhcp","kind":"end"}]}`,
		`{"events":[{"stage":"my mark","kind":"end"}]}`,
		`{"events":[{}]}`,
		`{"status":{"systemd":{"units":[{}]}}}`,
	} {
		f.Add([]byte(s))
	}
	b := registry.Boot{ID: "0123456789abcdef", Node: "pc1", Init: time.Unix(1, 0)}
	f.Fuzz(func(t *testing.T, data []byte) {
		var req api.ReportRequest
		if json.Unmarshal(data, &req) != nil || req.Uptime < 0 || req.Uptime > maxUptime {
			return
		}
		events, err := nodeEventsOf(b, req)
		if err != nil {
			return
		}
		for _, e := range events {
			rank := trace.Rank(e.Stage)
			if e.Boot != b.ID || e.Node != b.Node || e.Seq != 0 || rank >= 0 && rank < trace.Rank(trace.Init) {
				t.Fatalf("not the node's own: %+v", e)
			}
			if len(e.Message) > httpapi.MaxMessage || len(e.Hint) > httpapi.MaxMessage || len(e.Attrs) > maxAttrs ||
				e.Offset < 0 ||
				e.Offset > req.Uptime {
				t.Fatalf("not bounded: %+v", e)
			}
			if _, err := json.Marshal(e); err != nil {
				t.Fatal(err)
			}
		}
	})
}
