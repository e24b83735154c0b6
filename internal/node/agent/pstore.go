package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/rundir"
)

// pstore reports the last boot's kernel log that pstore kept, and then deletes it, so that it is reported once.
// Without one it does nothing.
func (v *sender) pstore(ctx context.Context) {
	path := filepath.Join(v.who.dir, rundir.PstoreName)
	left, err := os.ReadFile(path)
	if err != nil {
		return
	}
	req := api.ReportRequest{
		Boot:   v.who.Self().Boot,
		Uptime: v.who.offset(),
		Pstore: strings.ToValidUTF8(string(left), ""),
	}
	if err := v.say(ctx, req); err != nil && !control.ForGood(err) {
		return // try again in the next round
	}
	if err := os.Remove(path); err != nil {
		v.logf("%v", err)
	}
}
