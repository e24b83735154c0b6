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

// pstore reports what the kernel of the last boot left, once: then it is gone, for the agent that comes after this
// one too. Without it there is nothing to do but to look.
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
		return // once more
	}
	if err := os.Remove(path); err != nil {
		v.logf("%v", err)
	}
}
