package blockd

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/cache"
	"pando/internal/chunk"
	"pando/internal/rootdaemon"
	"pando/internal/testkit/cachekit"
)

// pendingDisk returns a pending disk, and the end of the socket over which it is sent.
func pendingDisk(t *testing.T, wait time.Duration) (*blockapi.PendingDisk, *os.File) {
	t.Helper()
	ours, theirs, err := rootdaemon.SocketPair("cache")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
	})
	return &blockapi.PendingDisk{Wait: wait, File: theirs}, ours
}

// sendDisk sends a disk as init does.
func sendDisk(t *testing.T, disk *blockapi.CacheDisk, to *os.File) {
	t.Helper()
	if err := errors.Join(disk.Send(to), to.Close()); err != nil {
		t.Fatal(err)
	}
}

// waitObjects waits until this many objects are durable on a disk.
func waitObjects(t *testing.T, disk *blockapi.CacheDisk, want int) {
	t.Helper()
	got := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		d, err := cache.Open(disk.File, disk.Size, cache.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if got = d.Stats().Objects; got >= want {
			return
		}
	}
	t.Fatalf("%d objects are on the disk, want %d", got, want)
}

// pendingConfigs has configurations without a boot pack, with one, and in a swarm.
func pendingConfigs(t *testing.T) map[string]func(*testing.T) (*trackedOrigin, blockapi.Config) {
	t.Helper()
	return map[string]func(*testing.T) (*trackedOrigin, blockapi.Config){
		"swarm": func(t *testing.T) (*trackedOrigin, blockapi.Config) { return newTrackedOrigin(t, 400) },
		"pack": func(t *testing.T) (*trackedOrigin, blockapi.Config) {
			o, c := newTrackedOrigin(t, 400)
			c.Swarm = nil
			return o, c
		},
		"chunks": func(t *testing.T) (*trackedOrigin, blockapi.Config) {
			o, c := newTrackedOrigin(t, 400)
			c.Swarm, c.Pack = nil, nil
			return o, c
		},
	}
}

// If the node is not known to have a disk, nothing waits for it: objects come from the network meanwhile. They are
// written to the disk once it appears, and the next boot fetches nothing.
func TestPendingDisk(t *testing.T) {
	for name, config := range pendingConfigs(t) {
		t.Run(name, func(t *testing.T) {
			o, c := config(t)
			disk := cachekit.NewDisk(t)
			var ours *os.File
			c.Pending, ours = pendingDisk(t, 0)
			a, err := startAlone(t.Context(), t, c)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if len(c.Pack) > 0 {
				statusWhen(t, a, func(st blockapi.Status) bool { return st.Complete > 0 })
			}
			o.readAll(t, a)
			before := o.sent.Load()
			if before < int64(len(o.raw)) {
				t.Errorf("%d bytes were sent before the disk came, of a root of %d", before, len(o.raw))
			}
			sendDisk(t, disk, ours)
			objects := 400 + 2 // chunks and the index
			if len(c.Pack) > 0 {
				objects = 40 + 1 // pieces and the root of the index
			}
			waitObjects(t, disk, objects)
			a.Close()
			c.Pending, c.Disk = nil, disk
			warm := readAlone(t, o.testOrigin, c)
			if o.sent.Load() != before || warm.Bytes["disk"] == 0 ||
				incidentOf(warm, blockapi.CacheFailed, blockapi.CacheDamaged) {
				t.Errorf(
					"the next boot: %v, %d bytes sent, incidents %v",
					warm.Bytes,
					o.sent.Load()-before,
					warm.Incidents,
				)
			}
		})
	}
}

// A node that is known to have a cache waits for its disk. With a warm cache it sends no request.
func TestKnownPendingDisk(t *testing.T) {
	for name, config := range pendingConfigs(t) {
		t.Run(name, func(t *testing.T) {
			o, c := config(t)
			disk := cachekit.NewDisk(t)
			cold := c
			cold.Disk = disk
			readAlone(t, o.testOrigin, cold)
			before := o.sent.Load()
			var ours *os.File
			c.Pending, ours = pendingDisk(t, time.Hour)
			dir := t.TempDir()
			go func() {
				for client := (blockapi.Client{Socket: filepath.Join(dir,
					blockapi.Socket)}); t.Context().Err() == nil; time.Sleep(20 * time.Millisecond) {
					if _, err := client.Status(t.Context(), 0); err == nil {
						break
					}
				}
				time.Sleep(300 * time.Millisecond) // a daemon that does not wait would fetch now
				if n := o.sent.Load() - before; n != 0 {
					t.Errorf("%d bytes were fetched before the disk came", n)
				}
				if err := errors.Join(disk.Send(ours), ours.Close()); err != nil {
					t.Error(err)
				}
			}()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			a, err := StartAlone(t.Context(), self, dir, c, os.Stderr)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			o.readAll(t, a)
			st := statusWhen(t, a, func(st blockapi.Status) bool { return st.Bytes["disk"] >= int64(len(o.raw)) })
			if o.sent.Load() != before || st.Bytes["server"]+st.Bytes["peer"] != 0 ||
				incidentOf(st, blockapi.CacheFailed, blockapi.CacheDamaged) {
				t.Errorf(
					"with a warm cache: %v, %d bytes sent, incidents %v",
					st.Bytes,
					o.sent.Load()-before,
					st.Incidents,
				)
			}
		})
	}
}

// A disk that does not come, comes late, or comes in an invalid message makes no boot fail.
func TestDiskThatNeverComes(t *testing.T) {
	send := func(data string, fds ...int) func(*testing.T, *os.File) {
		return func(t *testing.T, to *os.File) {
			var rights []byte
			if len(fds) > 0 {
				rights = unix.UnixRights(fds...)
			}
			if err := unix.Sendmsg(int(to.Fd()), []byte(data), rights, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, x := range map[string]struct {
		wait      time.Duration
		does      func(*testing.T, *os.File)
		incidents []blockapi.IncidentKind
	}{
		"known, and gone":   {time.Hour, func(_ *testing.T, to *os.File) { to.Close() }, nil},
		"known, and silent": {200 * time.Millisecond, func(*testing.T, *os.File) {}, nil},
		"unknown, and gone": {0, func(_ *testing.T, to *os.File) { to.Close() }, nil},
		"without descriptor": {time.Hour, send(`{"name":"/dev/sda1","size":80000000}`),
			[]blockapi.IncidentKind{blockapi.CacheFailed}},
		"no message": {time.Hour, send("nonsense", 0), []blockapi.IncidentKind{blockapi.CacheFailed}},
		"no disk": {time.Hour, send(`{"name":"/dev/sda1","size":80000000}`, 0),
			[]blockapi.IncidentKind{blockapi.CacheFailed}},
	} {
		t.Run(name, func(t *testing.T) {
			for config, make := range pendingConfigs(t) {
				o, c := make(t)
				var ours *os.File
				c.Pending, ours = pendingDisk(t, x.wait)
				x.does(t, ours)
				if st := readAlone(t, o.testOrigin, c); !slices.Equal(kinds(st), x.incidents) || st.Bytes["disk"] > 0 ||
					st.Bytes["server"] < int64(len(o.raw)) {
					t.Errorf("%s: %v, incidents %v", config, st.Bytes, st.Incidents)
				}
			}
		})
	}
}

// A daemon that takes over gets the disk, whether its predecessor died before or after the disk came.
func TestSupervisorPassesPendingDisk(t *testing.T) {
	o, c := aloneConfig(t, 400)
	disk := cachekit.NewDisk(t)
	warm := c
	warm.Disk = disk
	readAlone(t, o, warm)
	pending, ours := pendingDisk(t, 0)
	k, client, ready, stop := supervise(t, o, blockapi.Config{ChunkSize: c.ChunkSize, Pending: pending})
	defer stop()
	if ready != "ready" {
		t.Fatalf("supervisor says %q", ready)
	}
	status := func() blockapi.Status {
		t.Helper()
		st, err := client.Status(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	read := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if got, err := k.read(int64(i)*chunk.BlockSize, chunk.BlockSize); err != nil ||
				!bytes.Equal(got, o.raw[i*chunk.BlockSize:][:chunk.BlockSize]) {
				t.Fatalf("block %d: wrong bytes or %v", i, err)
			}
		}
	}
	kill := func() {
		t.Helper()
		if err := unix.Kill(status().PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	read(0, 100)
	kill()
	read(100, 200) // by another daemon, whose disk is still to come
	network := status().Bytes["server"]
	const ahead = 4 * chunk.BlockSize // the daemon may still be reading this far ahead
	if network == 0 || status().Bytes["disk"] != 0 {
		t.Errorf("before the disk came: %v", status().Bytes)
	}
	sendDisk(t, disk, ours)
	for n := range 2 {
		kill() // the disk is sent, and in use
		read(200+100*n, 300+100*n)
		if st := status(); st.Bytes["server"] > network+ahead || st.Bytes["disk"] == 0 || st.Restarts != int64(n+2) {
			t.Errorf("after %d restarts: %v, %d bytes came from the server before", st.Restarts, st.Bytes, network)
		}
	}
}
