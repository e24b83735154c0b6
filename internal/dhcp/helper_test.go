package dhcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/tftp"
)

// A server has to run in a network namespace of its own. A Go program cannot be in two, so the test binary starts
// itself again inside, with a helperSpec in this variable.
const helperEnv = "PANDO_DHCP_HELPER"

// helperSpec says what the helper serves.
type helperSpec struct {
	Config  Config
	Loaders netboot.Loaders // a function in Config, which no JSON carries
	Leases  []fleet.Lease
	Menu    bool           // firmware ignores a plain boot file
	NICs    []fleet.MAC    // of the node whose fixed address is the first of Leases
	Files   string         // directory of boot files, served by TFTP and HTTP; "": no TFTP, no HTTP
	Kernel  string         // file; "": scripts tell the machine to wait
	Initrd  string         // file
	Args    []string       // kernel arguments
	Action  netboot.Action // overrides
	Chain   string         // the first requested script starts this file by TFTP instead
	Look    bool           // print what DiscoverServers finds and exit
	LookFor time.Duration
	Hurry   time.Duration // between questions for other servers
	Known   []fleet.MAC   // of nodes
	Send    string        // send this captured packet to every server, or to SendTo, print what comes back, and exit
	SendTo  string        // address and port; the answer is awaited on the same port
}

// line is one line that the helper prints.
type line struct {
	Ready bool           `json:",omitempty"`
	Seen  *Seen          `json:",omitempty"`
	Found *Found         `json:",omitempty"`
	State *State         `json:",omitempty"`
	TFTP  *tftp.Transfer `json:",omitempty"`
	HTTP  string         `json:",omitempty"`
	Query *netboot.Query `json:",omitempty"`
	Error string         `json:",omitempty"`
	// Answer is the answer to a replayed packet.
	Answer *answered       `json:",omitempty"`
	Log    json.RawMessage `json:",omitempty"`
}

type answered struct {
	Type, File, Class string
	Server, Addr      netip.Addr
}

func TestMain(m *testing.M) {
	if spec := os.Getenv(helperEnv); spec != "" {
		out := &lines{enc: json.NewEncoder(os.Stdout)}
		if err := helper(spec, out); err != nil {
			out.put(line{Error: err.Error()})
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type lines struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func (l *lines) put(v line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.enc.Encode(v)
}

// Write takes lines of the JSON logger.
func (l *lines) Write(b []byte) (int, error) {
	l.put(line{Log: json.RawMessage(bytes.TrimSpace(b))})
	return len(b), nil
}

func helper(specJSON string, out *lines) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The test that started it closes standard input when it ends, in whatever way.
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); stop() }()
	var spec helperSpec
	if err := json.Unmarshal([]byte(specJSON), &spec); err != nil {
		return err
	}
	if spec.Look {
		found, err := DiscoverServers(ctx, spec.Config.Interfaces[0], spec.LookFor)
		for _, f := range found {
			out.put(line{Found: &f})
		}
		return err
	}
	if spec.Send != "" {
		return replay(ctx, spec, out)
	}
	log := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	leases := newMemory(spec.Leases...)
	leases.menu = spec.Menu
	if len(spec.NICs) > 0 {
		leases.node(spec.Leases[0], spec.NICs...)
	}
	leases.known = map[fleet.MAC]bool{}
	for _, m := range spec.Known {
		leases.known[m] = true
	}
	spec.Config.Loaders = func() netboot.Loaders { return spec.Loaders }
	s := &Server{Config: spec.Config, Registry: leases, Log: log,
		hurry:   hurried(spec.Hurry),
		Observe: func(v Seen) { out.put(line{Seen: &v}) },
		Found:   func(f Found, st State) { out.put(line{Found: &f, State: &st}) }}
	if err := s.Open(ctx); err != nil {
		return err
	}
	if spec.Files != "" {
		if err := helperFiles(ctx, spec, out, log); err != nil {
			return err
		}
	}
	out.put(line{Ready: true})
	return s.Run(ctx)
}

// replay sends a captured packet and prints the replies that come within LookFor.
func replay(ctx context.Context, spec helperSpec, out *lines) error {
	b, err := os.ReadFile(spec.Send)
	if err != nil {
		return err
	}
	to := &net.UDPAddr{IP: net.IPv4bcast, Port: ServerPort}
	port := clientPort
	if spec.SendTo != "" {
		if to, err = net.ResolveUDPAddr("udp4", spec.SendTo); err != nil {
			return err
		}
		port = to.Port
	}
	conn, err := listenUDP(ctx, spec.Config.Interfaces[0], port)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.WriteToUDP(b, to); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(spec.LookFor))
	buf := make([]byte, 2048)
	for {
		n, _, err := conn.ReadFromUDP(buf)
		if err != nil {
			return nil
		}
		p, err := dhcpv4.FromBytes(buf[:n])
		if err != nil {
			return err
		}
		out.put(
			line{
				Answer: &answered{
					Type:   messageNames[p.MessageType()],
					Server: addr(p.Options.Get(dhcpv4.OptionServerIdentifier)),
					Addr: addr(
						p.YourIPAddr,
					),
					File:  cmp.Or(p.BootFileName, p.BootFileNameOption()),
					Class: p.ClassIdentifier(),
				},
			},
		)
	}
}

func helperFiles(ctx context.Context, spec helperSpec, out *lines, log *slog.Logger) error {
	files := tftp.FS(os.DirFS(spec.Files))
	srv := &tftp.Server{Log: log, Done: func(t tftp.Transfer) { t.Err = nil; out.put(line{TFTP: &t}) },
		Files: tftp.FilesFunc(func(ctx context.Context, r tftp.Request) (tftp.Content, error) {
			if r.Name == "autoexec.ipxe" {
				return bytes.NewReader(netboot.Chain(fmt.Sprintf("http://%s:8480", r.Local))), nil
			}
			return files.Open(ctx, r)
		})}
	go func() { _ = srv.ListenAndServe(ctx, "0.0.0.0:69") }()
	l, err := net.Listen("tcp", ":8480")
	if err != nil {
		return err
	}
	h := &helperHTTP{spec: spec, out: out}
	go func() { _ = http.Serve(l, h) }()
	return nil
}

type helperHTTP struct {
	spec  helperSpec
	out   *lines
	first sync.Once
}

func (h *helperHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := line{HTTP: r.Method + " " + r.URL.String()}
	defer func() { h.out.put(v) }()
	base := "http://" + r.Host
	switch {
	case strings.HasPrefix(r.URL.Path, netboot.FilePath):
		http.ServeFile(w, r, h.spec.Files+"/"+strings.TrimPrefix(r.URL.Path, netboot.FilePath))
	case strings.HasPrefix(r.URL.Path, "/o/"):
		http.ServeFile(w, r, h.spec.Kernel)
	case strings.HasSuffix(r.URL.Path, "/initramfs"):
		http.ServeFile(w, r, h.spec.Initrd)
	case r.URL.Path == netboot.ScriptPath:
		chained := false
		if h.spec.Chain != "" {
			h.first.Do(func() {
				chained = true
				host, _, _ := net.SplitHostPort(r.Host)
				fmt.Fprintf(w, "#!ipxe\nchain tftp://%s/%s\n", host, h.spec.Chain)
			})
		}
		if chained {
			return
		}
		q, err := netboot.ParseQuery(r.URL.RawQuery)
		if err != nil {
			_, _ = w.Write(netboot.Chain(base))
			return
		}
		v.Query = &q
		in := netboot.ScriptInput{Action: netboot.Wait, Base: base, MAC: q.MAC, Message: "nobody has adopted it yet",
			Hint: "pando node adopt " + q.MAC.String(), Retry: 3 * time.Second}
		if h.spec.Action != "" {
			in.Action = h.spec.Action
		} else if h.spec.Kernel != "" {
			in = netboot.ScriptInput{Action: netboot.Start, Base: base, MAC: q.MAC, Node: "pc001",
				Boot:  "0123456789abcdef",
				Image: "lab:latest", Version: fleet.Digest("sha256:" + strings.Repeat("ab", 32)),
				Kernel: strings.Repeat("cd", 32), Args: h.spec.Args}
		}
		b, err := netboot.Script(in)
		if err != nil {
			v.Error = err.Error()
		}
		_, _ = w.Write(b)
	default:
		http.NotFound(w, r)
	}
}

// hurried returns a pace for tests: the usual one, with all times in proportion to the time between urgent questions.
func hurried(every time.Duration) pace {
	urgent := min(every, usualPace().urgent)
	return pace{giving: every, stopped: every, beside: every, urgent: urgent, hint: 10 * urgent, settle: 5 * urgent}
}
