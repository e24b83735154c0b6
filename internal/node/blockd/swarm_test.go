package blockd

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/image/bootpack"
	"pando/internal/swarm"
	"pando/internal/swarm/tracker"
)

// trackedOrigin is an origin with a tracker.
type trackedOrigin struct {
	*testOrigin
	tracker *tracker.Server
	sent    atomic.Int64 // bytes of objects that were sent
	http    *httptest.Server
}

func newTrackedOrigin(t *testing.T, blocks int) (*trackedOrigin, blockapi.Config) {
	t.Helper()
	o, c := aloneConfig(t, blocks)
	o.putPack(t, 10, bootpack.Extent{Start: 0, Blocks: uint32(blocks)})
	s := &trackedOrigin{
		testOrigin: o,
		tracker:    tracker.New(swarm.TrackerOptions{Uplink: 4_000_000, Random: rand.New(rand.NewPCG(1, 2))}, nil, nil),
	}
	m := http.NewServeMux()
	m.Handle("/swarm/", s.tracker.Handler())
	m.HandleFunc("/o/", func(w http.ResponseWriter, r *http.Request) {
		s.sent.Add(int64(len(o.objects[r.URL.Path])))
		o.ServeHTTP(w, r)
	})
	s.http = httptest.NewServer(m)
	t.Cleanup(s.http.Close)
	c.Servers, c.Pack, c.Swarm = []string{s.http.URL}, o.pack, &blockapi.SwarmConfig{}
	return s, c
}

// readAll reads the whole root through a daemon.
func (o *trackedOrigin) readAll(t *testing.T, a *Alone) {
	t.Helper()
	got := make([]byte, 128<<10)
	for off := 0; off < len(o.raw); off += len(got) {
		part := got[:min(len(got), len(o.raw)-off)]
		if _, err := a.Device.ReadAt(part, int64(off)); err != nil || !bytes.Equal(part, o.raw[off:][:len(part)]) {
			t.Fatalf("%d bytes at %d differ, or %v", len(part), off, err)
		}
	}
}

// statusWhen waits for a status for which good returns true.
func statusWhen(t *testing.T, a *Alone, good func(blockapi.Status) bool) blockapi.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		st, err := a.Client.Status(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		if good(st) {
			return st
		}
		time.Sleep(20 * time.Millisecond) // saves processor time; the context ends the loop
	}
}

func incidentOf(st blockapi.Status, kinds ...blockapi.IncidentKind) bool {
	return slices.ContainsFunc(st.Incidents, func(i blockapi.Incident) bool { return slices.Contains(kinds, i.Kind) })
}

// A daemon serves its objects after its boot, and a later one gets its boot pack from it. Both count the bytes. A
// daemon that leaves the swarm gets no more requests, and goes on reading.
func TestBlockDaemonsShare(t *testing.T) {
	o, c := newTrackedOrigin(t, 400)
	first, err := startAlone(t.Context(), t, c)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	o.readAll(t, first)
	before := statusWhen(t, first, func(st blockapi.Status) bool { return st.Bytes["server"] >= int64(len(o.raw)) })
	if before.Bytes["peer"] != 0 || incidentOf(before, blockapi.TrackerLost) {
		t.Errorf("one alone: %+v", before)
	}
	second, err := startAlone(t.Context(), t, c)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	o.readAll(t, second)
	st := statusWhen(
		t,
		second,
		func(st blockapi.Status) bool { return st.Bytes["server"]+st.Bytes["peer"] >= int64(len(o.raw)) },
	)
	if st.Bytes["peer"] < int64(len(o.raw))/4 || st.Rejected+st.Errors > 0 {
		t.Errorf("the second daemon: %+v", st)
	}
	if len(st.Fed) != 2 || st.Fed["127.0.0.1"] != st.Bytes["peer"] || st.Fed[o.http.URL] != st.Bytes["server"] {
		t.Errorf("the second was fed %v, and received %v", st.Fed, st.Bytes)
	}
	statusWhen(t, first, func(st blockapi.Status) bool { return st.Uploaded > 0 })
	r, err := second.Client.EndReads(t.Context())
	if err != nil || r.Peers < st.Bytes["peer"] || r.Received < r.Peers {
		t.Errorf("recorded %+v, %v", r, err)
	}
	if err := first.Client.Leave(t.Context()); err != nil || o.tracker.Nodes() != 1 {
		t.Errorf("one left, and the tracker knows %d nodes; %v", o.tracker.Nodes(), err)
	}
	o.readAll(t, first)
	t.Logf(
		"second: %d bytes of the server, %d of the first; memory %d",
		st.Bytes["server"],
		st.Bytes["peer"],
		st.Memory,
	)
}

// A pack that is larger than the memory for it can be read.
func TestBlockDaemonSharesLessThanItsPack(t *testing.T) {
	o, c := newTrackedOrigin(t, 400)
	c.Keep = 100 << 10 // two pieces and a half of 40 KiB
	a, err := startAlone(t.Context(), t, c)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	o.readAll(t, a)
	o.readAll(t, a)
	st, err := a.Client.Status(t.Context(), 0)
	if err != nil || st.Errors > 0 || st.Bytes["server"] < int64(len(o.raw)) {
		t.Errorf("%+v, %v", st, err)
	}
}

// A daemon without a tracker works like one without peers, and reports the missing tracker once.
func TestBlockDaemonWithoutATracker(t *testing.T) {
	o, c := newTrackedOrigin(t, 100)
	c.Servers = []string{o.url} // this server has no tracker
	a, err := startAlone(t.Context(), t, c)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	o.readAll(t, a)
	st := statusWhen(t, a, func(st blockapi.Status) bool { return incidentOf(st, blockapi.TrackerLost) })
	if st.Bytes["peer"] != 0 || st.Errors+st.Failures != 0 {
		t.Errorf("status %+v", st)
	}
}

// A peer that sends wrong bytes is on the timeline with the object, and so is a slow peer.
func TestBlockDaemonNamesBadPeers(t *testing.T) {
	for name, x := range map[string]struct {
		send http.HandlerFunc
		want blockapi.IncidentKind
	}{
		"wrong bytes": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 10*chunk.BlockSize)) // the daemon is gone when this fails
		}, blockapi.PeerBanned},
		"short body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "40960")
			_, _ = w.Write(make([]byte, 77)) // the daemon is gone when this fails
			panic(http.ErrAbortHandler)
		}, blockapi.PeerLeft},
		"no byte": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, blockapi.PeerLeft},
	} {
		t.Run(name, func(t *testing.T) {
			o, c := newTrackedOrigin(t, 400)
			hostile(t, o, c.Pack, x.send)
			a, err := startAlone(t.Context(), t, c)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			o.readAll(t, a)
			st := statusWhen(t, a, func(st blockapi.Status) bool { return incidentOf(st, x.want) })
			if st.Errors > 0 || st.Bytes["peer"] > 0 || (x.want == blockapi.PeerBanned) != (st.Rejected > 0) {
				t.Errorf("status %+v", st)
			}
		})
	}
}

// hostile announces a peer to a swarm that claims to have everything.
func hostile(t *testing.T, o *trackedOrigin, pack []byte, send http.HandlerFunc) {
	t.Helper()
	m, err := bootpack.Decode(pack)
	if err != nil {
		t.Fatal(err)
	}
	have := swarm.NewBitmap(len(m.Pieces))
	for p := range m.Pieces {
		have.Set(p)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /o/{id}", send)
	mux.HandleFunc("GET /have", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Pando-Pack", chunk.Sum(pack).String())
		_, _ = w.Write(have) // the daemon is gone when this fails
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	s := httptest.NewServer(mux)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	body := bytes.NewBufferString(
		`{"pack": "` + chunk.Sum(pack).String() + `", "pieces": ` + strconv.Itoa(len(m.Pieces)) +
			`, "port": ` + strconv.Itoa(s.Listener.Addr().(*net.TCPAddr).Port) + `}`,
	)
	resp, err := http.Post(o.http.URL+"/swarm/join", "application/json", body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("join: %v, %v", resp, err)
	}
	resp.Body.Close()
}

// One host cannot take all connections, and a connection whose peer is gone ends.
func TestPeersHaveFewConnections(t *testing.T) {
	const gone = 30 * time.Second
	l, err := listenPeers(t.Context(), 0, gone)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	to := net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	// dial returns the accepted connection, nil if it was closed at once.
	dial := func(from byte) net.Conn {
		t.Helper()
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}}).Dial("tcp", to)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		closed := make(chan struct{})
		go func() { _, _ = c.Read(make([]byte, 1)); close(closed) }()
		select {
		case a := <-accepted:
			t.Cleanup(func() { a.Close() })
			return a
		case <-closed:
			return nil
		}
	}
	var first net.Conn
	for i := range 2 * maxOneConns {
		c := dial(1)
		if (c != nil) != (i < maxOneConns) {
			t.Errorf("connection %d of one address is taken: %v", i+1, c != nil)
		}
		if i == 0 {
			first = c
		}
	}
	if dial(2) == nil {
		t.Error("another address is shut out")
	}
	first.Close()
	c := dial(1)
	if c == nil {
		t.Fatal("one that was closed keeps its place")
	}
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for option, want := range map[int]int{unix.TCP_USER_TIMEOUT: int(gone.Milliseconds()),
		unix.TCP_NOTSENT_LOWAT: unsentMost} {
		got := 0
		if err := raw.Control(func(fd uintptr) {
			got,
				_ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option)
		}); err != nil ||
			got != want {
			t.Errorf("option %d of a connection is %d, want %d; %v", option, got, want, err)
		}
	}
	for i := byte(3); i < 200; i++ {
		if dial(i) == nil {
			if i-3 < maxPeerConns-maxOneConns-2 {
				t.Errorf("full with %d addresses", i)
			}
			return
		}
	}
	t.Error("there is no bound for all of them")
}
