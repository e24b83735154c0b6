package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/store"
	"pando/internal/trace"
)

// RecordedVersion makes a data directory with a version that has the given root (whole chunks), and a read trace of a
// boot. The boot reads every other 64 KiB, in bursts of two reads, and takes 100 ms for each 4 MiB of root. The last
// reads come after booted.
func RecordedVersion(ctx context.Context, data string, root []byte) (fleet.Digest, error) {
	keys, err := identity.Open(filepath.Join(data, "keys"))
	if err != nil {
		return "", err
	}
	dir, err := store.OpenDir(filepath.Join(data, "store"))
	if err != nil {
		return "", err
	}
	v, err := PutVersion(ctx, dir, keys.Site, VersionParts{Kernel: "kernel", Drivers: "drivers", Root: root})
	if err != nil {
		return "", err
	}
	const run, burst = 16, 10 * time.Millisecond
	blocks := len(root) / chunk.BlockSize
	var reads []trace.Read
	for i := 0; i < blocks; i += 2 * run {
		at := time.Duration(i/(4*run)) * burst
		reads = append(reads, trace.Read{Start: uint32(blocks - 2*run - i), Blocks: run, At: at})
	}
	type moment struct {
		Stage trace.Stage   `json:"stage"`
		At    time.Duration `json:"at"`
	}
	kept, err := json.Marshal(map[string]any{
		"boot":     "1",
		"received": "2026-01-01T00:00:00Z",
		"moments":  []moment{{"root", 1}, {trace.Booted, time.Duration(blocks/1024) * 100 * time.Millisecond}},
		"reads":    trace.EncodeReads(reads),
	})
	if err != nil {
		return "", err
	}
	traces := filepath.Join(data, "traces", strings.TrimPrefix(string(v), "sha256:"))
	return v, errors.Join(os.MkdirAll(traces, 0o755), os.WriteFile(filepath.Join(traces, "1.json"), kept, 0o644))
}
