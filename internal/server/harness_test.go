package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/trace"
)

var local = netip.MustParseAddr("127.0.0.1")

// clock is a clock that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// site is a running server with an image, on loopback.
type site struct {
	*Server
	t     testing.TB
	dir   string
	clock *clock
	stop  func()
	cfg   Config

	samples bool // record the server's traffic after the next start; it depends on this machine

	rested chan struct{} // receives when no boot pack is left to make
}

// startSite runs a server in a new directory, beside the sites of other tests.
func startSite(t testing.TB, change ...func(*Config)) *site {
	t.Helper()
	if t, ok := t.(*testing.T); ok {
		t.Parallel()
	}
	return startAlone(t, change...)
}

// startAlone is startSite for a test that has a site already, or that needs a port or the processors for itself.
func startAlone(t testing.TB, change ...func(*Config)) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), clock: newClock(), rested: make(chan struct{}, 1)}
	agent := filepath.Join(s.dir, "agent")
	if err := os.WriteFile(agent, []byte("\x7fELF not really a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	boot := filepath.Join(s.dir, "ipxe")
	if err := errors.Join(os.Mkdir(boot, 0o755),
		os.WriteFile(filepath.Join(boot, "undionly.kpxe"), []byte("loader"), 0o644),
		os.WriteFile(filepath.Join(boot, "secret"), []byte("not a loader"), 0o644)); err != nil {
		t.Fatal(err)
	}
	s.cfg = Config{
		Dir:       filepath.Join(s.dir, "data"),
		Release:   "test",
		Data:      "127.0.0.1:0",
		Control:   "127.0.0.1:0",
		TFTP:      "127.0.0.1:0",
		Agent:     agent,
		BootFiles: boot,
		APIRate:   10_000, // most clocks stand still
		Now:       s.clock.now,
		Log:       slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	for _, c := range change {
		c(&s.cfg)
	}
	s.start()
	return s
}

// start runs the server; restart is stop and start.
func (s *site) start() {
	s.t.Helper()
	quiet := s.cfg
	quiet.DHCP.Mode = dhcp.Off
	if !s.samples {
		quiet.sampleLeast = math.MaxInt64
	}
	srv, err := New(s.t.Context(), quiet)
	if err != nil {
		s.t.Fatal(err)
	}
	srv.booter.Neighbour = func(netip.Addr) (fleet.MAC, bool) { return fleet.MAC{}, false }
	srv.packs.Idle = func() {
		select {
		case s.rested <- struct{}{}:
		default: // a value is waiting already
		}
	}
	// No DHCP server listens on loopback; the tests call what it would call.
	if err := srv.Listen(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	srv.cfg.DHCP.Mode = cmp.Or(s.cfg.DHCP.Mode, dhcp.Proxy)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	s.Server = srv
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("run: %v", err)
		}
		if err := srv.Close(); err != nil {
			s.t.Errorf("close: %v", err)
		}
	})
	s.t.Cleanup(s.stop)
}

func (s *site) restart() {
	s.t.Helper()
	s.stop()
	s.start()
}

// addImage puts a version into the store and tags it as lab:latest, the default group's image.
func (s *site) addImage(change ...func(*image.Manifest)) (image.Manifest, fleet.Digest) {
	s.t.Helper()
	ctx := s.t.Context()
	unlock, err := s.store.Lock(ctx, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlock()
	w := s.store.NewWriter()
	defer w.Close()
	put := func(data string) chunk.ID {
		id, _, err := w.Put(ctx, []byte(data))
		if err != nil {
			s.t.Fatal(err)
		}
		return id
	}
	kernel := strings.Repeat("kernel", 50_000)
	m := image.Manifest{Format: 1, Architecture: "amd64",
		Kernel: image.Kernel{Release: "6.1.0", Object: put(kernel), Size: int64(len(kernel))},
		Drivers: []image.Driver{
			{Name: "base", Object: put("drivers!!!"), Size: 10},
			{Name: "net", Object: put("net"), Size: 3},
		},
		CommandLine: []string{"quiet"},
		Root:        image.Root{FileSystem: "erofs", Index: put("index"), Size: 4096, ChunkSize: 65536}}
	for _, c := range change {
		c(&m)
	}
	if err := w.Sync(ctx); err != nil {
		s.t.Fatal(err)
	}
	raw, err := m.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	d, err := s.store.PutVersion(store.Version{Manifest: raw, Signature: image.Sign(s.keys.Site, raw)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.update(func(tx *registry.Tx) error {
		_, err := tx.PutTag(fleet.Tag{Image: "lab", Tag: "latest", Version: d})
		if errors.Is(err, registry.ErrNotFound) {
			err = errors.Join(tx.AddVersion(registry.ImageVersion{Image: "lab", Version: d, Added: s.now()}))
			if err == nil {
				_, err = tx.PutTag(fleet.Tag{Image: "lab", Tag: "latest", Version: d})
			}
		}
		g, e := tx.Group(fleet.DefaultGroup)
		g.Image, g.Follow = "lab", true
		g.AuthorizedKeys = &[]string{"ssh-ed25519 AAAA me@here"}
		return errors.Join(err, e, tx.PutGroup(g))
	})
	return m, d
}

func (s *site) update(fn func(*registry.Tx) error) {
	s.t.Helper()
	if err := s.registry.Update(s.t.Context(), fn); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) policy(p fleet.AdoptionPolicy) {
	s.t.Helper()
	s.update(func(tx *registry.Tx) error {
		return tx.PutPolicy(registry.Policy{Adoption: p, Naming: "pc[001-]"})
	})
}

// node plays a machine on loopback.
type node struct {
	*site
	mac  fleet.MAC
	addr netip.Addr // the node's own address
	http *http.Client
	fast bool // the clock does not advance

	serial string // that its firmware says; "": S1
	uuid   string // the same; "": none

	digests string // "&sha256=1" for a loader that verifies digests

	brisk time.Duration // subtracted from each wait; 0: nothing
}

// wait advances the clock.
func (n *node) wait(d time.Duration) {
	if !n.fast {
		n.clock.add(d / max(n.brisk, 1))
	}
}

func (s *site) node(n byte) *node { return s.nodeAt(n, local) }

func (s *site) nodeAt(n byte, addr netip.Addr) *node {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: addr.AsSlice()}}
	t := &http.Transport{DialContext: d.DialContext, TLSClientConfig: api.PinnedTLS(s.keys.ServerPublic())}
	s.t.Cleanup(t.CloseIdleConnections)
	return &node{
		site: s,
		mac:  fleet.MAC{0x52, 0x54, 0, 0, 0, n},
		addr: addr,
		http: &http.Client{Transport: t, Timeout: 20 * time.Second},
	}
}

// observeDHCP plays what the DHCP server reports of one packet.
func (s *site) observeDHCP(seen dhcp.Seen) {
	s.t.Helper()
	known, err := s.booter.Snapshot(s.t.Context(), dhcp.Request{MAC: seen.MAC, Client: seen.Client}, nil)
	if err == nil {
		err = s.booter.Commit(s.t.Context(), dhcp.Change{Node: known.Node, Seen: seen})
	}
	if err != nil {
		s.t.Error(err)
	}
	s.countDHCP(seen)
}

// exchange plays what the DHCP server reports of a whole exchange of firmware or iPXE.
func (n *node) exchange(kind netboot.Kind) {
	client := netboot.Client{Kind: kind, Arch: netboot.BIOS, UUID: packetUUID}
	n.observeDHCP(dhcp.Seen{Time: n.now(), MAC: n.mac, Message: "DISCOVER", Client: client, Reply: "OFFER"})
	n.wait(300 * time.Millisecond)
	n.observeDHCP(dhcp.Seen{Time: n.now(), MAC: n.mac, Message: "REQUEST", Client: client, Requested: n.addr})
}

func (n *node) get(path string, header ...string) (int, []byte) {
	n.t.Helper()
	req, err := http.NewRequestWithContext(
		n.t.Context(),
		"GET",
		fmt.Sprintf("http://127.0.0.1:%d%s", n.ports.Data, path),
		nil,
	)
	if err != nil {
		n.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := n.http.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return res.StatusCode, b
}

// script requests the boot script.
func (n *node) script() string {
	n.t.Helper()
	status, b := n.get(
		"/boot/script?mac=" + strings.ReplaceAll(n.mac.String(), ":", "-") + "&ip=" + n.addr.String() + "&serial.hex=" +
			hex.EncodeToString([]byte(cmp.Or(n.serial, "S1"))) + "&uuid=" + n.uuid + n.digests,
	)
	if status != 200 {
		n.t.Fatalf("script: status %d: %s", status, b)
	}
	return string(b)
}

// admitted requests the boot script until the node is admitted, and returns how often it had to wait.
func (n *node) admitted() (script string, waited int) {
	n.t.Helper()
	for ; ; waited++ {
		script = n.script()
		if !strings.Contains(script, " waits for its turn to load: place ") {
			return script, waited
		}
		n.wait(time.Second)
		time.Sleep(20 * time.Millisecond) // the node's sleep; its length does not matter
	}
}

// urls picks the kernel's and the initramfs' paths out of a script.
func urls(t testing.TB, script string) (kernel, initramfs string) {
	t.Helper()
	for line := range strings.Lines(script) {
		for _, word := range strings.Fields(line) {
			_, rest, _ := strings.Cut(word, "://")
			_, path, ok := strings.Cut(rest, "/")
			if !ok {
				continue
			}
			switch {
			case strings.HasPrefix(line, "kernel "):
				kernel = "/" + path
			case strings.HasPrefix(line, "initrd "):
				initramfs = "/" + path
			}
		}
	}
	if kernel == "" || initramfs == "" {
		t.Fatalf("script starts nothing:\n%s", script)
	}
	return kernel, initramfs
}

// trust finds boot.json in an initramfs, as the kernel would: newc entries from the front.
func trust(t testing.TB, initramfs []byte) api.BootConfig {
	t.Helper()
	for b := initramfs; len(b) > 110 && string(b[:6]) == "070701"; {
		var mode, size, nameSize uint64
		if _, err := fmt.Sscanf(string(b[14:22])+" "+string(b[54:62])+" "+string(b[94:102]), "%x %x %x", &mode, &size,
			&nameSize); err != nil {
			t.Fatal(err)
		}
		name := string(b[110 : 110+nameSize-1])
		data := (110 + nameSize + 3) &^ 3
		if name == "pando/boot.json" {
			if mode&0o777 != 0o600 {
				t.Errorf("boot.json has mode %o", mode&0o777)
			}
			var cfg api.BootConfig
			if err := json.Unmarshal(b[data:data+size], &cfg); err != nil {
				t.Fatal(err)
			}
			return cfg
		}
		b = b[(data+size+3)&^3:]
	}
	t.Fatal("no boot.json in the initramfs")
	return api.BootConfig{}
}

// post sends JSON to the control port and decodes the answer.
func (n *node) post(path, authorization string, in, out any) *api.Error {
	n.t.Helper()
	status, b := n.postRaw(path, authorization, in)
	if status/100 != 2 {
		var e api.ErrorBody
		if err := json.Unmarshal(b, &e); err != nil || e.Error == nil {
			n.t.Fatalf("%s: status %d without an error body: %q", path, status, b)
		}
		e.Error.Status = status
		return e.Error
	}
	if out != nil && status != http.StatusNoContent {
		if err := json.Unmarshal(b, out); err != nil {
			n.t.Fatal(err)
		}
	}
	return nil
}

// postRaw is like post and returns the raw answer.
func (n *node) postRaw(path, authorization string, in any) (int, []byte) {
	n.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		n.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(
		n.t.Context(),
		"POST",
		fmt.Sprintf("https://127.0.0.1:%d%s", n.ports.Control, path),
		bytes.NewReader(body),
	)
	if err != nil {
		n.t.Fatal(err)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	res, err := n.http.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return res.StatusCode, b
}

// load plays everything up to /init: exchanges, script, kernel, initramfs.
func (n *node) load() api.BootConfig {
	n.t.Helper()
	n.exchange(netboot.PXE)
	n.wait(time.Second)
	n.exchange(netboot.IPXE)
	n.wait(time.Second)
	script, _ := n.admitted()
	kernel, initramfs := urls(n.t, script)
	if status, _ := n.get(kernel); status != 200 {
		n.t.Fatalf("kernel: status %d", status)
	}
	n.wait(2 * time.Second)
	status, b := n.get(initramfs)
	if status != 200 {
		n.t.Fatalf("initramfs: status %d: %s", status, b)
	}
	n.wait(time.Second)
	return trust(n.t, b)
}

func registrationOf(cfg api.BootConfig) api.RegisterRequest {
	return api.RegisterRequest{
		Boot:     cfg.Boot,
		Token:    cfg.Token,
		MAC:      cfg.MAC,
		Release:  "test",
		Hardware: fleet.Hardware{Vendor: "QEMU", Serial: "S1"},
	}
}

func (n *node) register(cfg api.BootConfig) api.RegisterResponse {
	n.t.Helper()
	var resp api.RegisterResponse
	if e := n.post("/v1/node/hello", "", registrationOf(cfg), &resp); e != nil {
		n.t.Fatalf("hello: %v (%s)", e, e.Hint)
	}
	return resp
}

// eventsOf returns "stage kind" of a boot's events.
func (s *site) eventsOf(id fleet.BootID) []string {
	s.t.Helper()
	s.flushHistory()
	events, err := s.registry.Events(s.t.Context(), registry.EventFilter{Boot: id})
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, e := range events {
		out = append(out, string(e.Stage)+" "+string(e.Kind))
	}
	return out
}

func (s *site) progress(id fleet.BootID) trace.Progress {
	s.t.Helper()
	s.flushHistory()
	p, err := s.registry.Progress(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return p[id].Progress
}

// flushHistory waits until queued events are written.
func (s *site) flushHistory() {
	s.t.Helper()
	if err := s.boots.Flush(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// packetUUID is what the DHCP packets of all machines say of their firmware.
const packetUUID = "4c4c4544-0042-3510-8052-b4c04f4e3732"
