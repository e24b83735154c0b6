package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"pando/internal/fleet"
	"pando/internal/trace"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("PANDO_TEST_WRITE_IN"); dir != "" {
		writeUntilKilled(dir)
	}
	goleak.VerifyTestMain(m)
}

func openIn(t *testing.T, dir string) *Registry {
	t.Helper()
	r, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestSQLite(t *testing.T) {
	conformance(t, func(t *testing.T) *Registry { return openIn(t, t.TempDir()) })
}

// TestOddDirectory: a path may have characters that have a meaning in a URL.
func TestOddDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c=d#e%41")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := openIn(t, dir)
	must(t, r, func(tx *Tx) error { return tx.CreateNode(aNode("pc1", 1)) })
	fi, err := os.Stat(filepath.Join(dir, File))
	if err != nil || fi.Mode().Perm() != 0o600 || fi.Size() == 0 {
		t.Errorf("%v, %v", fi, err)
	}
}

// TestReopen: what was written exists after a clean stop.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	r := openIn(t, dir)
	must(t, r, func(tx *Tx) error { return tx.CreateNode(aNode("pc1", 1)) })
	if _, err := r.Append(t.Context(), anEvent("b1", trace.Init, trace.End)); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = openIn(t, dir)
	if nodes := read(t, r, (*Tx).Nodes); len(nodes) != 1 || r.Last() != 1 {
		t.Errorf("%d nodes, last event %d", len(nodes), r.Last())
	}
}

// TestBoundedEvents: the oldest events are deleted first, and no number is used twice.
func TestBoundedEvents(t *testing.T) {
	r, err := Open(t.Context(), Options{Dir: t.TempDir(), MaxEvents: 3000})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	batch := make([]trace.Event, 100)
	for i := range 50 {
		for j := range batch {
			batch[j] = anEvent(fleet.BootID(fmt.Sprint(i)), trace.Init, trace.Info)
		}
		if _, err := r.Append(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
	}
	events, err := r.Events(t.Context(), EventFilter{})
	if err != nil || len(events) < 3000 || len(events) > 4000 || events[len(events)-1].Seq != 5000 {
		t.Errorf("%d events are kept, the last is %d, %v", len(events), r.Last(), err)
	}
}

// TestFilesThatCannotBeUsed: the error names the file and says what to do; the file does not change.
func TestFilesThatCannotBeUsed(t *testing.T) {
	for _, c := range []struct {
		name, file, message, hint string
		spoil                     func(t *testing.T, path string)
	}{
		{"newer", File, "newer than this release", "newer release",
			func(t *testing.T, path string) { execIn(t, path, `PRAGMA user_version = 99`) }},
		{"not a database", File, "not a database", "backup",
			func(t *testing.T, path string) { write(t, path, strings.Repeat("not a database. ", 100)) }},
		{"damaged", File, "", "backup", damage},
		{"the other file", File, "not this kind of file", "backup", func(t *testing.T, path string) {
			b, err := os.ReadFile(filepath.Join(filepath.Dir(path), EventsFile))
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, string(b))
		}},
		{"events", EventsFile, "not a database", "only the " +
			"timelines", func(t *testing.T, path string) { write(t, path, strings.Repeat("x", 5000)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			r := openIn(t, dir)
			must(t, r, func(tx *Tx) error {
				for i := range 200 {
					if err := tx.PutLease(fleet.Lease{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}),
						MAC: mac(byte(i))}); err != nil {
						return err
					}
				}
				return nil
			})
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, c.file)
			c.spoil(t, path)
			before, _ := os.ReadFile(path)
			_, err := Open(t.Context(), Options{Dir: dir})
			var f *FileError
			if !errors.As(err, &f) || f.Path != path || !strings.Contains(err.Error(), c.message) ||
				!strings.Contains(f.Hint(), c.hint) {
				t.Errorf("error %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
	if _, err := Open(t.Context(), Options{Dir: "/no/such/directory"}); err == nil ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a directory: %v", err)
	}
}

func execIn(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), query)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// damage overwrites the middle of a file.
func damage(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(b); i += 4096 {
		copy(b[i:], "\xff\xff\xff\xff damage damage damage")
	}
	write(t, path, string(b))
}

// writeUntilKilled is the other process of TestKill: it records leases and prints which ones were confirmed.
func writeUntilKilled(dir string) {
	r, err := Open(context.Background(), Options{Dir: dir})
	if err != nil {
		panic(err)
	}
	var out sync.Mutex
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				a := netip.AddrFrom4([4]byte{10, byte(w), byte(i >> 8), byte(i)})
				err := r.Update(
					context.Background(),
					func(tx *Tx) error { return tx.PutLease(fleet.Lease{Addr: a, MAC: mac(byte(w)), Expires: now}) },
				)
				if err != nil {
					panic(err)
				}
				out.Lock()
				fmt.Println(a)
				out.Unlock()
			}
		}()
	}
	select {}
}

// TestKill: what Update confirmed exists after kill -9 of the process, and the file is not damaged.
func TestKill(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		dir := t.TempDir()
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "PANDO_TEST_WRITE_IN="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		told := map[netip.Addr]bool{}
		for len(told) < 100*(round+1) {
			var line string
			if _, err := fmt.Fscanln(out, &line); err != nil {
				t.Fatal(err)
			}
			told[netip.MustParseAddr(line)] = true
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		r := openIn(t, dir)
		for _, l := range read(t, r, (*Tx).Leases) {
			delete(told, l.Addr)
		}
		if len(told) > 0 {
			t.Errorf("round %d: %d leases were acknowledged and are lost", round, len(told))
		}
	}
}

// BenchmarkLeases writes leases from many goroutines at once, as a DHCP server does in a boot storm.
func BenchmarkLeases(b *testing.B) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			r, err := Open(b.Context(), Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			b.SetParallelism(writers)
			var n sync.Mutex
			i := 0
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					n.Lock()
					i++
					a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
					n.Unlock()
					if err := r.Update(b.Context(),
						func(tx *Tx) error {
							return tx.PutLease(fleet.Lease{Addr: a, MAC: mac(1),
								Expires: now})
						}); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkNodes lists a large fleet and finds one node of it.
func BenchmarkNodes(b *testing.B) {
	r, err := Open(b.Context(), Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	const fleetSize = 10_000
	err = r.Update(b.Context(), func(tx *Tx) error {
		for i := range fleetSize {
			n := aNode(fmt.Sprintf("pc%05d", i), 0)
			n.MACs = []fleet.MAC{{2, 0, 0, byte(i >> 16), byte(i >> 8), byte(i)}}
			if err := tx.CreateNode(n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	view := func(name string, fn func(*Tx) error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := r.View(b.Context(), fn); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	view("list", func(tx *Tx) error { _, err := tx.Nodes(); return err })
	view("names", func(tx *Tx) error { _, err := tx.NodeNames(); return err })
	view("mac", func(tx *Tx) error { _, err := tx.NodeByMAC(fleet.MAC{2, 0, 0, 0, 1, 7}); return err })
}
