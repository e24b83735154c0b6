package node

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/testkit/clikit"
)

// A disk is erased only after the user typed its exact name. The question says what would be lost.
func TestConfirmErase(t *testing.T) {
	disks := []api.Disk{
		{Name: "/dev/sda", Size: 500e9, Model: "Disk A"},
		{Name: "/dev/sdb", Size: 8e9, Model: "Stick", Has: "vfat PHOTOS"},
	}
	for _, x := range []struct {
		device, typed string
		refused       string // part of the error; "": no error
	}{
		{"/dev/sdb", "/dev/sdb", ""},
		{"/dev/sdb", " /dev/sdb ", ""},
		{"/dev/sdb", "/dev/sda", "was not typed"},
		{"/dev/sdb", "yes", "was not typed"},
		{"/dev/sdb", "", "was not typed"},
		{"/dev/sdc", "/dev/sdc", "has no disk /dev/sdc"},
	} {
		master, slave := testkit.OpenPTY(t)
		if _, err := master.WriteString(x.typed + "\n"); err != nil {
			t.Fatal(err)
		}
		var asked strings.Builder
		env, _ := clikit.Env()
		env.In, env.Err = slave, &asked
		err := confirmErase(env, "pc001", x.device, disks)
		switch {
		case x.refused == "" && err != nil:
			t.Errorf("%q for %s: %v", x.typed, x.device, err)
		case x.refused != "" && (err == nil || !strings.Contains(err.Error(), x.refused)):
			t.Errorf("%q for %s: got %v, want %q", x.typed, x.device, err, x.refused)
		}
		if all := "8.0 GB Stick vfat PHOTOS"; x.device == "/dev/sdb" &&
			(!strings.Contains(asked.String(), all) || !strings.Contains(asked.String(), "pc001")) {
			t.Errorf("the question is %q, want %q of pc001 in it", asked.String(), all)
		}
		if err := errors.Join(slave.Close(), master.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Without a terminal no question is asked.
func TestConfirmEraseWithoutTerminal(t *testing.T) {
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	env, _ := clikit.Env()
	env.In = in
	err = confirmErase(env, "pc001", "/dev/sdb", []api.Disk{{Name: "/dev/sdb"}})
	if !strings.Contains(exitcode.HintOf(err), "--erase /dev/sdb") {
		t.Errorf("got %v, want a hint to --erase", err)
	}
}

// A prepared disk is used if the node's settings say so. Otherwise the output names the command for the group or the
// node.
func TestCacheUse(t *testing.T) {
	none, ram, disk := fleet.CacheNone, fleet.CacheRAM, fleet.CacheDisk
	for _, x := range []struct {
		name  string
		group fleet.CachePolicy
		own   *fleet.CachePolicy
		want  []string
	}{
		{"no cache", "", nil, []string{"NOT used", "cache none", "pando group set lab --cache disk"}},
		{"in memory", ram, nil, []string{"NOT used", "cache ram", "pando group set lab --cache disk"}},
		{"on disks", disk, nil, []string{"is used from the next boot on"}},
		{"not this node", disk, &none, []string{"NOT used", "pando node set pc001 --cache disk"}},
		{"this node alone", none, &disk, []string{"is used from the next boot on"}},
	} {
		n := fleet.Node{Name: "pc001", Group: "lab"}
		n.Cache = x.own
		got := cacheUse(
			api.Node{
				Node: n,
				Effective: fleet.Effective(
					fleet.Layers{Node: n, Group: fleet.Group{Name: "lab", Settings: fleet.Settings{Cache: &x.group}}},
				),
			},
		)
		for _, want := range x.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q in it", x.name, got, want)
			}
		}
	}
}

// The output after preparing a disk depends on the settings of its node.
func TestNodeCacheSaysWhetherItIsUsed(t *testing.T) {
	socket := cmdenv.SocketPath(t.TempDir())
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	n := api.Node{
		Node:      fleet.Node{Name: "pc001", Group: "lab"},
		Effective: []fleet.Value{{Setting: fleet.SettingCache, Value: "none"}},
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/nodes/pc001" {
			_ = json.NewEncoder(w).Encode(n)
			return
		}
		_ = json.NewEncoder(w).Encode(api.DiskList{Disks: []api.Disk{{Name: "/dev/sdb"}}})
	})}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	c := api.OverSocket(socket)
	defer c.Close()
	env, out := clikit.Env()
	if err := runNodeCache(env, t.Context(), c, "pc001",
		nodeCacheFlags{device: "/dev/sdb", erase: "/dev/sdb"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "NOT used") ||
		!strings.Contains(out.String(), "pando group set lab --cache disk") {
		t.Errorf("it says %q", out)
	}
}
