package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/diskreserve"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// fullNode returns a declared node and what its boot writes.
func fullNode(i int) (mac fleet.MAC, addr netip.Addr, name string, id fleet.BootID) {
	return fleet.MAC{2, 7, 0, 0, byte(i >> 8), byte(i)}, netip.AddrFrom4([4]byte{10, 7, byte(i >> 8), byte(i)}),
		fmt.Sprintf("pc%d", i), fleet.BootID(fmt.Sprintf("%016x", i))
}

// declareFull declares the first n of these nodes.
func declareFull(tx *Tx, n int) error {
	for i := range n {
		mac, _, name, _ := fullNode(i)
		err := tx.CreateNode(fleet.Node{Name: name, MACs: []fleet.MAC{mac}, State: fleet.Adopted,
			Group: fleet.DefaultGroup, Created: now.Add(-time.Hour)})
		if err != nil {
			return err
		}
	}
	return nil
}

// bootOnFull writes a boot on a full disk: lease, record of size bytes, session.
func bootOnFull(t *testing.T, r *Registry, i, size int) error {
	t.Helper()
	mac, addr, name, id := fullNode(i)
	hardware, err := json.Marshal(strings.Repeat("h", size))
	if err != nil {
		t.Fatal(err)
	}
	b := Boot{ID: id, MAC: mac, Node: name, Addr: addr, Started: now, Hardware: hardware}
	err = r.UpdateBoot(t.Context(), mac, func(tx *Tx) error {
		if err := tx.DeleteLeasesOf(mac, addr); err != nil {
			return err
		}
		lease := fleet.Lease{Addr: addr, MAC: mac, Host: name, Expires: now.Add(time.Hour)}
		return errors.Join(tx.PutLease(lease), tx.CreateBoot(b))
	})
	if err != nil {
		return err
	}
	return r.UpdateBoot(t.Context(), mac, func(tx *Tx) error {
		b, err := tx.Boot(id)
		if err != nil {
			return err
		}
		b.Session = HashSecret(name)
		return errors.Join(tx.PutBoot(b), tx.EndSessions(mac, id))
	})
}

// checkFullBoot checks that a boot, its lease and its session are found by every query.
func checkFullBoot(t *testing.T, r *Registry, i int) {
	t.Helper()
	mac, addr, name, id := fullNode(i)
	err := r.View(t.Context(), func(tx *Tx) error {
		b, err := tx.Boot(id)
		bySession, e1 := tx.BootBySession(HashSecret(name))
		latest, e2 := tx.LatestBoots(name)
		all, e3 := tx.LatestBoots()
		list, e4 := tx.Boots(BootFilter{MAC: mac, Limit: 1})
		l, e5 := tx.LeaseByMAC(mac)
		at, e6 := tx.LeaseByAddr(addr)
		in, e7 := tx.LeasesIn(addr, addr)
		for what, ok := range map[string]bool{
			"boot": b.Node == name, "session": bySession.ID == id, "latest": latest[name].ID == id,
			"all": all[name].ID == id, "list": len(list) == 1 && list[0].ID == id, "lease": l.Addr == addr && l.Known,
			"address": at.MAC == mac, "range": len(in) == 1 && in[0].MAC == mac,
		} {
			if !ok {
				t.Errorf("%s: %s is not there", name, what)
			}
		}
		return errors.Join(err, e1, e2, e3, e4, e5, e6, e7)
	})
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// TestBootsOnFullDisk: while the disk is full, known nodes boot, first from the reserve and then in memory, and all
// other changes are refused. When there is room again, everything is written to the disk, and the reserve is taken
// again.
func TestBootsOnFullDisk(t *testing.T) { eachDisk(t, 48<<20, bootsOnFullDisk) }

func bootsOnFullDisk(t *testing.T, dir string) {
	var log bytes.Buffer
	r, err := Open(t.Context(), Options{Dir: dir, Reserve: diskreserve.New(dir), Log: logTo(&log)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	const nodes = 200
	must(t, r, func(tx *Tx) error { return declareFull(tx, nodes) })
	r.Relieve(t.Context())
	filler := fill(t, dir)
	r.Relieve(t.Context())
	if d := r.FullDisk(); d == nil || d.Reserved == 0 {
		t.Fatalf("the disk is full, and it is said: %+v", d)
	}
	group := func(name string) error {
		return r.Update(t.Context(), func(tx *Tx) error { return tx.CreateGroup(fleet.Group{Name: name}) })
	}
	if err := group("refused"); !errors.Is(err, ErrFull) {
		t.Errorf("an administrator's change on a full disk: %v", err)
	}
	unknown := fleet.MAC{2, 8, 0, 0, 0, 1}
	lease := fleet.Lease{Addr: netip.MustParseAddr("10.8.0.1"), MAC: unknown, Expires: now.Add(time.Hour)}
	put := func(tx *Tx) error { return tx.PutLease(lease) }
	if err := r.UpdateBoot(t.Context(), unknown, put); !errors.Is(err, ErrFull) {
		t.Errorf("a lease for an unknown machine on a full disk: %v", err)
	}
	booted, events := 0, 0
	for ; booted < nodes && (r.FullDisk() == nil || r.FullDisk().InMemory < 40); booted++ {
		if err := bootOnFull(t, r, booted, 200_000); err != nil {
			t.Fatalf("boot %d: %v", booted, err)
		}
		_, _, _, id := fullNode(booted)
		for range 3 {
			events++
			e := anEvent(id, trace.Init, trace.End)
			e.Message = strings.Repeat("m", 4000)
			if _, err := r.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		checkFullBoot(t, r, booted)
	}
	d := r.FullDisk()
	if d == nil || d.InMemory < 40 || booted < 20 {
		t.Fatalf("%d booted; %+v", booted, d)
	}
	t.Logf("%d booted on the full disk; %+v", booted, *d)
	if err := r.UpdateBoot(t.Context(), unknown, put); !errors.Is(err, ErrFull) {
		t.Errorf("a lease for an unknown machine without any room: %v", err)
	}
	check := func(r *Registry) {
		t.Helper()
		for i := range booted {
			checkFullBoot(t, r, i)
			_, _, _, id := fullNode(i)
			if p, err := r.Progress(t.Context(), id); err != nil || p[id].Stage != trace.Init {
				t.Errorf("progress of boot %d: %+v, %v", i, p[id], err)
			}
		}
	}
	check(r)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	r.Relieve(t.Context())
	if d := r.FullDisk(); d != nil || diskreserve.New(dir).Held() == 0 {
		t.Errorf("the disk has room again: %+v\n%s", d, log.String())
	}
	if err := group("after"); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again := openIn(t, dir)
	check(again)
	all, err := again.Events(t.Context(), EventFilter{})
	if err != nil || len(all) != events {
		t.Errorf("%d events of %d are on the disk, %v", len(all), events, err)
	}
	for _, want := range []string{"the disk is full", "in memory", "the disk has room again"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log.String())
		}
	}
}

// crashDir is the environment variable with the directory of TestCrashOnFullDisk's child process, which crashes.
const crashDir = "PANDO_TEST_CRASH_DIR"

// TestCrashOnFullDisk: a registry whose process was killed on a full disk opens again on that disk, with all
// confirmed changes.
func TestCrashOnFullDisk(t *testing.T) {
	if dir := os.Getenv(crashDir); dir != "" {
		r, err := Open(t.Context(), Options{Dir: dir, Reserve: diskreserve.New(dir)})
		if err != nil {
			t.Fatal(err)
		}
		r.Relieve(t.Context())
		must(t, r, func(tx *Tx) error { return declareFull(tx, 8) })
		fill(t, dir)
		for i := range 8 {
			if err := bootOnFull(t, r, i, 1000); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Append(t.Context(), anEvent("b1", trace.Init, trace.End)); err != nil {
			t.Fatal(err)
		}
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	}
	eachDisk(t, 48<<20, crashOnFullDisk)
}

func crashOnFullDisk(t *testing.T, dir string) {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashOnFullDisk$")
	child.Env = append(os.Environ(), crashDir+"="+dir)
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child was not killed: %v\n%s", err, out)
	}
	for range 2 {
		r, err := Open(t.Context(), Options{Dir: dir, Reserve: diskreserve.New(dir)})
		if err != nil {
			t.Fatal(err)
		}
		r.Relieve(t.Context())
		for i := range 8 {
			checkFullBoot(t, r, i)
		}
		if events, err := r.Events(t.Context(), EventFilter{Boot: "b1"}); err != nil || len(events) != 1 {
			t.Errorf("%d events, %v", len(events), err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestartOnFullDisk: a registry opens on a disk without a free byte, after a clean stop and after a crash, with
// all confirmed changes, and known nodes can boot.
func TestRestartOnFullDisk(t *testing.T) {
	dir := smallDisk(t, 48<<20)
	open := func() *Registry {
		r, err := Open(t.Context(), Options{Dir: dir, Reserve: diskreserve.New(dir)})
		if err != nil {
			t.Fatal(err)
		}
		r.Relieve(t.Context())
		return r
	}
	r := open()
	must(t, r, func(tx *Tx) error { return declareFull(tx, 8) })
	fill(t, dir)
	for i := range 8 {
		if err := bootOnFull(t, r, i, 1000); err != nil {
			t.Fatal(err)
		}
		if i == 4 {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(dir + "/fill")
			fill(t, dir) // somebody takes the room of what the stop removed
			r = open()
		}
		for j := range i + 1 {
			checkFullBoot(t, r, j)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}
