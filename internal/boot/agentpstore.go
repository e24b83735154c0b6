package boot

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"pando/internal/api"
)

// pstore reports what the kernel of the last boot left, once, as soon as it is there. Without it there is nothing to do but to look.
func (a *agent) pstore(ctx context.Context) {
	if a.progress.Pstore {
		return
	}
	left, err := os.ReadFile(filepath.Join(a.dir, pstoreName))
	if err != nil {
		return
	}
	req := api.ReportRequest{Boot: a.self().Boot, Uptime: a.offset(), Pstore: strings.ToValidUTF8(string(left), "")}
	if err := a.say(ctx, req); err != nil && !forGood(err) {
		return // once more
	}
	a.progress.Pstore = true
	a.keepProgress()
}
