package image

import (
	"slices"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/testkit/clikit"
	"pando/internal/trace"
)

func testTrace() api.ImageTrace {
	version, from := fleet.Digest(chunk.Sum([]byte("v")).String()), fleet.Digest(chunk.Sum([]byte("before")).String())
	return api.ImageTrace{
		Image: "lab", Version: version, RootSize: 673e6, Read: 40e6, Chunks: 15e6,
		Boots: []api.TraceBoot{
			{
				Boot:        "b",
				Node:        "pc002",
				Received:    clikit.Start().Add(-4 * time.Minute),
				Requests:    843,
				Read:        40e6,
				Pack:        "one",
				Hits:        39_400_000,
				Misses:      600_000,
				Wasted:      300_000,
				WastedLater: 2_100_000,
			},
			{Boot: "a", Node: "pc001", Received: clikit.Start().Add(-time.Hour), Requests: 849, Read: 40e6},
		},
		Packs: []api.Pack{
			{
				Sequence:   2,
				Object:     "one",
				Made:       clikit.Start().Add(-5 * time.Minute),
				Boots:      2,
				Pieces:     154,
				Raw:        40e6,
				Stored:     12e6,
				BootSet:    9e6,
				BootPieces: 120,
			},
			{
				Class:      "lap-2",
				Sequence:   1,
				Object:     "two",
				Made:       clikit.Start().Add(-time.Hour),
				From:       from,
				Pieces:     9,
				Raw:        2e6,
				Stored:     1e6,
				BootSet:    1e6,
				BootPieces: 9,
			},
		},
		Stages: []api.TraceStage{
			{Stage: trace.Root, Requests: 3, Read: 12288},
			{Stage: trace.Booted, Requests: 556, Read: 22.7e6},
			{Stage: api.Later, Requests: 284, Read: 17.1e6},
		},
		Files: []api.TraceFile{
			{
				Path:  "usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-252.so",
				Read:  3.3e6,
				Size:  3.3e6,
				First: 418 * time.Millisecond,
				Stage: trace.SwitchRoot,
			},
			{Path: "usr/lib/udev/hwdb.bin", Read: 3.6e6, Size: 13e6, First: 19 * time.Second, Stage: trace.Booted},
			{
				Path:  "usr/lib/x86_64-linux-gnu/libc.so.6",
				Read:  1.9e6,
				Size:  1.9e6,
				First: 300 * time.Millisecond,
				Stage: trace.SwitchRoot,
			},
			{Path: "", Read: 360e3, Stage: trace.Root}, {Path: "init", Read: 4096, Size: 9, Stage: trace.SwitchRoot},
		},
		Advice: []api.TraceAdvice{{Text: "udev's hardware database: make it smaller", Read: 3.6e6}},
	}
}

func TestPrintTrace(t *testing.T) {
	env, out := clikit.Env()
	printTrace(env, testTrace(), 4)
	testkit.Golden(t, *update, "trace.txt", out.String())
}

func TestPrintTraceOfWhatNobodyBooted(t *testing.T) {
	env, out := clikit.Env()
	carried := testTrace()
	carried.Boots, carried.Stages, carried.Advice, carried.Packs = nil, nil, nil, carried.Packs[1:]
	printTrace(env, carried, 1)
	env.Printf("\n")
	printTrace(env, api.ImageTrace{Image: "new", Version: carried.Version}, 1)
	testkit.Golden(t, *update, "trace_unbooted.txt", out.String())
}

func TestFileOrders(t *testing.T) {
	for name, want := range map[string]string{"read": "usr/lib/udev/hwdb.bin", "size": "usr/lib/udev/hwdb.bin",
		"first": "", "path": ""} {
		files := testTrace().Files
		slices.SortStableFunc(files, fileOrders[name])
		if files[0].Path != want {
			t.Errorf("by %s the first is %q, want %q", name, files[0].Path, want)
		}
	}
}
