package boot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/testkit"
)

// hostile is a neighbour that answers a request for an object in its own way. A nil answer resets the connection.
type hostile struct {
	name   string
	base   string // its base URL; "": that of a neighbour that answers
	answer func(c net.Conn, object []byte)
	good   bool // what it sends may be accepted
}

// ok is the head of a good answer with n bytes.
func ok(n int) string { return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", n) }

// hostiles returns neighbours that send wrong bytes at many offsets, and those that do not send what they promise.
func hostiles(self string) (out []hostile) {
	send := func(c net.Conn, parts ...any) {
		for _, p := range parts {
			fmt.Fprintf(c, "%s", p)
		}
	}
	for i := range 200 {
		out = append(out, hostile{name: fmt.Sprintf("wrong byte %d of 200", i), answer: func(c net.Conn, o []byte) {
			bad := slices.Clone(o)
			bad[i*len(bad)/200] ^= 1 << (i % 8)
			send(c, ok(len(bad)), bad)
		}})
	}
	return append(out,
		hostile{name: "short, and closes", answer: func(c net.Conn, o []byte) { send(c, ok(len(o)), o[:len(o)/2]) }},
		hostile{name: "short, and says so", answer: func(c net.Conn, o []byte) { send(c, ok(len(o)/2), o[:len(o)/2]) }},
		hostile{name: "longer", answer: func(c net.Conn, o []byte) { send(c, ok(len(o)+4), o, "\x00\x00\x00\x00") }},
		hostile{name: "empty", answer: func(c net.Conn, _ []byte) { send(c, ok(0)) }},
		hostile{name: "stalled", answer: func(c net.Conn, o []byte) {
			send(c, ok(len(o)), o[:len(o)/2])
			_, _ = io.Copy(io.Discard, c) // until the machine gives up
		}},
		hostile{name: "mute", answer: func(c net.Conn, _ []byte) { _, _ = io.Copy(io.Discard, c) }},
		hostile{name: "reset"},
		hostile{name: "refused", base: strings.Replace(self, ":9000", ":9999", 1)},
		hostile{name: "dead address", base: "http://10.77.0.250:8481"},
		hostile{name: "reset in mid-body", answer: func(c net.Conn, o []byte) {
			send(c, ok(len(o)), o[:len(o)/2])
			_ = c.(*net.TCPConn).SetLinger(0)
		}},
		hostile{name: "redirect to itself", answer: func(c net.Conn, _ []byte) {
			send(c, "HTTP/1.1 302 Found\r\nLocation: "+self+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}},
		hostile{name: "huge headers", answer: func(c net.Conn, o []byte) {
			send(c, "HTTP/1.1 200 OK\r\n")
			for range 2000 {
				send(c, "X-Long: "+strings.Repeat("x", 1000)+"\r\n")
			}
			send(c, "Content-Length: 10\r\n\r\n0123456789")
		}},
		hostile{name: "another file", answer: func(c net.Conn, _ []byte) { send(c, ok(9), "something") }},
		hostile{name: "not found", answer: func(c net.Conn, _ []byte) {
			send(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		}},
		hostile{name: "no HTTP", answer: func(c net.Conn, _ []byte) { send(c, strings.Repeat("\x00\xff\r\n", 1000)) }},
		hostile{name: "impossible length", answer: func(c net.Conn, o []byte) {
			send(c, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", o)
		}},
		hostile{name: "HTTP/1.0 without a length", good: true, answer: func(c net.Conn, o []byte) {
			send(c, "HTTP/1.0 200 OK\r\n\r\n", o)
		}},
	)
}

// Real iPXE under UEFI takes kernel and initramfs from neighbours that do everything wrong: it accepts nothing altered,
// goes on with the next one within the time that a script gives, and loads from the server in the end.
func TestRealHostileNeighbours(t *testing.T) {
	needFull(t)
	network := newNet(t)
	loader := filepath.Join(binDir, "../ipxe/snponly.efi")
	if _, err := os.Stat(loader); err != nil {
		t.Skipf("no boot loader that verifies digests: %v", err)
	}
	s := newHostileSite(t, network)
	s.serve(network)
	runLoader(t, network, loader, s.base)
	m, err := testkit.StartMachine(testkit.MachineConfig{Name: "hostile", Net: network, Firmware: testkit.UEFI,
		MAC: fleet.MAC{0x52, 0x54, 0, 51, 0, 1}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	select {
	case <-s.done:
	case <-time.After(20 * time.Minute):
		t.Errorf("it does not end; console:\n%s", m.Console.Tail(30))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == 0 || s.round < len(s.rounds) {
		t.Errorf("%d of %d rounds, %d neighbours were asked", s.round, len(s.rounds), s.asked)
	}
}

// hostileSite answers scripts that name hostile neighbours, four at a time: in one round they are hostile about the
// kernel, in the next about the initramfs.
type hostileSite struct {
	t       *testing.T
	base    string
	objects map[string][]byte
	kernel  string
	initrd  string
	rounds  [][]hostile

	mu    sync.Mutex
	round int
	began time.Time
	asked int
	done  chan struct{}
}

const hostileBoot = "0123456789abcdef"

func newHostileSite(t *testing.T, network *testkit.Net) *hostileSite {
	s := &hostileSite{t: t, base: "http://" + network.Addr.Addr().String() + ":8480", objects: map[string][]byte{},
		done: make(chan struct{})}
	random := rand.NewChaCha8([32]byte{1})
	for _, to := range []*string{&s.kernel, &s.initrd} {
		data := make([]byte, 300_000)
		_, _ = random.Read(data)
		sum := sha256.Sum256(data)
		*to = hex.EncodeToString(sum[:])
		s.objects[*to] = data
	}
	for four := range slices.Chunk(hostiles(s.neighbour(0)), netboot.MaxNeighbours) {
		s.rounds = append(s.rounds, four)
	}
	return s
}

func (s *hostileSite) neighbour(i int) string {
	return strings.Replace(s.base, ":8480", fmt.Sprintf(":%d", 9000+i), 1)
}

// script returns the script of the present round. Every second one is hostile about the initramfs only.
func (s *hostileSite) script() ([]byte, error) {
	in := netboot.ScriptInput{Action: netboot.Start, Base: s.base, MAC: fleet.MAC{0x52, 0x54, 0, 51, 0, 1},
		Node: "hostile", Boot: hostileBoot, Image: "lab", Version: "sha256:0", Kernel: s.kernel, Initramfs: s.initrd,
		Keep: true}
	for i, x := range s.rounds[s.round] {
		in.Neighbours = append(in.Neighbours, cmp.Or(x.base, s.neighbour(i)))
	}
	text, err := netboot.Script(in)
	return bytes.ReplaceAll(text, []byte("sleep 5\n"), nil), err
}

// serve serves scripts, reports and objects, and plays the neighbours.
func (s *hostileSite) serve(network *testkit.Net) {
	m := http.NewServeMux()
	m.HandleFunc("GET /boot/script", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.began.IsZero() {
			s.round++
		}
		if s.round >= len(s.rounds) {
			s.round = len(s.rounds)
			select {
			case <-s.done:
			default:
				close(s.done)
			}
			fmt.Fprint(w, "#!ipxe\npoweroff\n")
			return
		}
		s.began = time.Now()
		text, err := s.script()
		if err != nil {
			s.t.Error(err)
		}
		_, _ = w.Write(text)
	})
	m.HandleFunc("GET /boot/"+hostileBoot+"/{file}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("file") == "sources" {
			s.check(r)
		}
		fmt.Fprint(w, "file "+r.PathValue("file"))
	})
	m.HandleFunc("GET /o/{id}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(s.objects[r.PathValue("id")])
	})
	l := s.listen(network, 8480)
	server := &http.Server{Handler: m}
	go server.Serve(l)
	s.t.Cleanup(func() { server.Close() })
	for i := range netboot.MaxNeighbours {
		go s.play(s.listen(network, 9000+i), i)
	}
}

func (s *hostileSite) listen(network *testkit.Net, port int) (l net.Listener) {
	s.t.Helper()
	err := network.Do(func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf("%s:%d", network.Addr.Addr(), port))
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	return l
}

// play answers as the present round's neighbour i does.
func (s *hostileSite) play(l net.Listener, i int) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			buf := make([]byte, 4096)
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			s.mu.Lock()
			x, round := hostile{}, s.round
			if round < len(s.rounds) && i < len(s.rounds[round]) {
				x = s.rounds[round][i]
			}
			s.asked++
			s.mu.Unlock()
			_, path, _ := strings.Cut(string(buf[:n]), " /o/")
			object := s.objects[path[:min(len(path), 64)]]
			switch {
			case x.answer != nil && object != nil && (round%2 == 0 || path[:64] == s.initrd):
				x.answer(c, object)
			case x.answer == nil:
				_ = c.(*net.TCPConn).SetLinger(0)
			default:
				fmt.Fprintf(c, "%s%s", ok(len(object)), object)
			}
		}()
	}
}

// check checks a report: whoever is hostile about an object was refused, in order.
func (s *hostileSite) check(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got, err := netboot.ParseSource(r.URL.Query(), len(s.rounds[s.round]))
	if err != nil {
		s.t.Error(err)
		return
	}
	took := time.Since(s.began).Round(100 * time.Millisecond)
	bad := 0
	for _, x := range s.rounds[s.round] {
		if got.Kernel == (s.round%2 == 0) && !x.good {
			bad++
		}
	}
	var names []string
	for _, x := range s.rounds[s.round] {
		names = append(names, x.name)
	}
	if len(got.Refused) < bad || bad == len(s.rounds[s.round]) && got.From != netboot.FromServer {
		s.t.Errorf("round %d (%v): it reports %+v, and %d are hostile", s.round, names, got, bad)
	}
	if limit := time.Duration(1+bad) * 10 * time.Second; took > limit {
		s.t.Errorf("round %d (%v) took %s, more than %s", s.round, names, took, limit)
	}
	if s.round >= 50 {
		s.t.Logf("round %d, %v: kernel %t, refused %v, after %s", s.round, names, got.Kernel, got.Refused, took)
	}
}

// runLoader sends machines a boot loader, and the loader to the site's first script.
func runLoader(t *testing.T, network *testkit.Net, loader, base string) {
	t.Helper()
	tree := t.TempDir()
	data, err := os.ReadFile(loader)
	if err == nil {
		err = os.WriteFile(filepath.Join(tree, "snponly.efi"), data, 0o644)
	}
	if err == nil {
		err = os.Chmod(tree, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := network.Command(ctx, "dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--port=0",
		"--interface="+testkit.BridgeName, "--bind-dynamic", "--dhcp-leasefile="+filepath.Join(tree, "leases"),
		"--dhcp-range=10.77.0.100,10.77.0.200", "--dhcp-userclass=set:ipxe,iPXE", "--user=root",
		"--enable-tftp", "--tftp-root="+tree, "--dhcp-boot=tag:!ipxe,snponly.efi",
		"--dhcp-boot=tag:ipxe,"+base+netboot.ScriptPath)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = c.Wait() // the status is that of a killed program
	})
}
