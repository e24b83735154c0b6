package node

import (
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/output"
	"pando/internal/testkit"
	"pando/internal/testkit/clikit"
)

// The table has a line for each path, for every kind of storage, and for paths that are no longer or not yet kept.
func TestStateTable(t *testing.T) {
	env, out := clikit.Env()
	const nfs = "nfs 10.0.0.1:/srv/state"
	week, told := clikit.Start().Add(-7*24*time.Hour), clikit.Start().Add(-time.Hour)
	reset := fleet.StateOrder{ID: "A", Kind: fleet.ResetState, Place: nfs, Paths: []string{"/var/log"}}
	through := fleet.StateOrder{Kind: fleet.CopyState, From: "pc005", Through: true}
	sent := through
	sent.Bytes, sent.Sent = 1.2e9, told
	rows := output.NewTable(env.Out, "NODE", "KEPT ON", "PATH", "SIZE", "SINCE", "TOLD", "NOTE")
	for _, s := range []api.StateOf{
		{Node: "pc001", Kept: nfs, Place: nfs, Persist: []string{"/var/log", "file:/etc/app.lic", "/srv"},
			Dir: "pc001", Orders: []fleet.StateOrder{reset}, Places: []fleet.StatePlace{
				{Place: nfs, On: nfs, Told: told,
					Paths: []fleet.KeptPath{{Path: "/etc/app.lic", Bytes: 4096, Since: week},
						{Path: "/opt", Bytes: 1e9}, {Path: "/var/log", Bytes: 61.9e6, Since: week}}},
				{Place: "disk", On: "disk", Told: week, Paths: []fleet.KeptPath{{Path: "/srv", Bytes: -1}}}}},
		{Node: "pc002", Kept: "volume 20GB", Place: "volume", Persist: []string{"/srv"},
			Volume: &api.VolumeState{Size: 20e9, Used: 1e9, Attached: true,
				Snapshots: []api.Snapshot{{Name: "before"}}},
			Places: []fleet.StatePlace{{Place: "volume", On: "volume 20GB", Told: told,
				Paths: []fleet.KeptPath{{Path: "/srv", Bytes: 9e8, Since: week}}}}},
		{Node: "pc003", Kept: nfs, Place: nfs, Persist: []string{"/srv"}, Dir: "pc003+2",
			Last: &fleet.StateResult{StateOrder: fleet.StateOrder{Kind: fleet.CopyState, From: "pc001"}, At: told,
				Error: "it could not be copied: is there room?"}},
		{Node: "pc003.deleted-1795600000", Deleted: week, Dir: "pc003",
			Orders: []fleet.StateOrder{{Kind: fleet.RemoveState, Place: nfs, From: "pc003.deleted-1795600000"}},
			Places: []fleet.StatePlace{{Place: nfs, On: nfs, Told: week,
				Paths: []fleet.KeptPath{{Path: "/srv", Bytes: 7}}}}},
		{Node: "pc005", Kept: "disk", Place: "disk", Persist: []string{"/srv"},
			Orders: []fleet.StateOrder{{Kind: fleet.SendState, To: "pc006"}}},
		{Node: "pc006", Kept: "disk", Place: "disk", Persist: []string{"/srv"}, Orders: []fleet.StateOrder{through}},
		{Node: "pc008", Kept: "disk", Place: "disk", Persist: []string{"/srv"}, Orders: []fleet.StateOrder{sent},
			Last: &fleet.StateResult{StateOrder: fleet.StateOrder{Kind: fleet.SendState, To: "pc006"}, At: told,
				Error: "tar: exit status 2"}},
		{Node: "pc004.deleted-1795600000", Volume: &api.VolumeState{Size: 20e9, Used: 1e9}},
	} {
		stateRows(env, rows, s)
	}
	rows.Flush()
	printOrders(env, api.StateOf{Node: "pc001", On: true, Orders: []fleet.StateOrder{reset}}, "")
	printOrders(env, api.StateOf{Node: "pc002", Orders: []fleet.StateOrder{{Kind: fleet.CopyState, From: "pc001"}}}, "")
	printOrders(env, api.StateOf{Node: "pc006", Orders: []fleet.StateOrder{through}}, "")
	printOrders(env, api.StateOf{Node: "pc003"}, "the state of pc003 is reset")
	testkit.Golden(t, *update, "node-state.txt", out.String())
}
