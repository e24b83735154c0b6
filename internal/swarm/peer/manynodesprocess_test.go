package peer

import (
	"bufio"
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
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"pando/internal/chunk"
	"pando/internal/store"
	"pando/internal/swarm"
)

// benchProcess is how many nodes run in one process. Each has up to two hundred connections, and some machines allow a
// process 20,000.
const benchProcess = 100

// benchTask tells a process which nodes to run. It is passed in the environment.
type benchTask struct {
	Server       string
	Nodes        int // of the whole storm
	First, After int
}

const benchTaskVariable = "PANDO_CROWD_TASK"

// TestMain runs this program as a process of nodes, if it was started as one.
func TestMain(m *testing.M) {
	task := os.Getenv(benchTaskVariable)
	if task == "" {
		os.Exit(m.Run())
	}
	if err := beNodes([]byte(task)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// beNodes boots its nodes, prints their traffic with the tracker, and stays until its standard input is closed.
func beNodes(task []byte) error {
	var x benchTask
	if err := json.Unmarshal(task, &x); err != nil {
		return err
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		files.Cur = files.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files) // if this fails, opening sockets reports it
	}
	boot, err := newBenchBoot(x.Nodes)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	nodes, errs := make([]*Node, x.After-x.First), make([]error, x.After-x.First)
	for i := range nodes {
		all.Go(func() { nodes[i], errs[i] = boot.boot(ctx, x.Server, x.First+i+1) })
	}
	all.Wait()
	var control swarm.Control
	for i, n := range nodes {
		if errs[i] != nil {
			return fmt.Errorf("node %d: %w", x.First+i, errs[i])
		}
		c := n.Control()
		control.Messages, control.Bytes = control.Messages+c.Messages, control.Bytes+c.Bytes
	}
	if err := json.NewEncoder(os.Stdout).Encode(control); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// benchProcesses is one process of nodes.
type benchProcesses struct {
	process *exec.Cmd
	stay    io.Closer
	words   *bufio.Scanner
}

// room starts a process for the nodes from first on.
func (s *benchServer) room(b *testing.B, nodes, first, after int) *benchProcesses {
	b.Helper()
	task, err := json.Marshal(benchTask{s.url, nodes, first, after})
	if err != nil {
		b.Fatal(err)
	}
	r := &benchProcesses{process: exec.CommandContext(b.Context(), os.Args[0])}
	r.process.Env, r.process.Stderr = append(os.Environ(), benchTaskVariable+"="+string(task)), os.Stderr
	if r.stay, err = r.process.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := r.process.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	r.words = bufio.NewScanner(out)
	if err := r.process.Start(); err != nil {
		b.Fatal(err)
	}
	return r
}

// booted waits until all nodes of the process have booted, and returns their traffic with the tracker.
func (r *benchProcesses) booted(b *testing.B) (control swarm.Control) {
	b.Helper()
	if !r.words.Scan() {
		b.Fatalf("a process of nodes ended: %v", r.words.Err())
	}
	if err := json.Unmarshal(r.words.Bytes(), &control); err != nil {
		b.Fatalf("%s", r.words.Text())
	}
	return control
}

func (r *benchProcesses) close(b *testing.B) {
	b.Helper()
	r.stay.Close()
	if err := r.process.Wait(); err != nil {
		b.Errorf("a process of nodes: %v", err)
	}
}

// benchStore is a piece store that keeps every piece. All nodes share the bytes.
type benchStore struct {
	all     []chunk.Verified
	follow  func()
	mu      sync.Mutex
	kept    swarm.Bitmap
	changed []int
}

func (s *benchStore) Put(p int, _ chunk.Verified, _ bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.Set(p)
	s.changed = append(s.changed, p)
	s.follow()
	return true
}

func (s *benchStore) Piece(p int) (v chunk.Verified, held bool, lost error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held = s.kept.Has(p); held {
		v = s.all[p]
	}
	return v, held, nil
}

func (s *benchStore) Lose(int, error) {}

func (s *benchStore) Changes() (changed, left []int, reach int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, s.changed = s.changed, nil
	return changed, nil, len(s.all)
}

// boot runs one node from its start to its last read. The node serves others until ctx is done.
func (s *benchBoot) boot(ctx context.Context, server string, i int) (*Node, error) {
	self := netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)})
	c := client(self, 4, nil)
	help := Join(ctx, c, []string{server}, JoinOptions{Pack: s.pack, Prefix: 8})
	if err := s.start(ctx, c, server, help); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(self, swarm.Port).String())
	if err != nil {
		return nil, err
	}
	log, slow := slog.New(slog.DiscardHandler), &store.TimeoutFloor{}
	slow.Set(help.AnnounceDelay)
	failover, err := store.NewFailover(quiet{}, &store.HTTP{URL: server, Client: client(self, 8, slow)})
	if err != nil {
		return nil, err
	}
	pieces := &benchStore{all: s.held, kept: swarm.NewBitmap(len(s.held))}
	n := NewNode(
		NodeOptions{
			Pack:           s.pack,
			Pieces:         s.pieces,
			Store:          pieces,
			Origin:         store.NewRetry(failover, log),
			Trackers:       []string{server},
			Port:           swarm.Port,
			Self:           self,
			Prefix:         8,
			DemandBytes:    1 << 20,
			Bootstrap:      s.files,
			BootstrapPeers: help.Peers,
			Control:        help.Control,
			Slow:           slow,
			Log:            log,
		},
	)
	context.AfterFunc(ctx, serve(slowListener{l, &slowLink{rate: s.rate}}, n.Handler()))
	pieces.follow = n.Moved
	go n.Run(ctx)
	return n, s.read(ctx, n)
}

// start fetches the bootstrap files from the first source that has them.
func (s *benchBoot) start(ctx context.Context, c *http.Client, server string, help swarm.JoinResult) error {
	name := "/m/" + manifestName(s.files.Manifest)
	for _, path := range []string{name, name + ".minisig", "/o/" + s.pack.Name()} {
		var b []byte
		var err error
		for i := 0; i <= len(help.Peers) && string(b) != string(s.objects[path]); i++ {
			url := server
			if i < len(help.Peers) {
				url = "http://" + help.Peers[i].String()
			}
			b, err = fetchFile(ctx, c, url+path)
		}
		if string(b) != string(s.objects[path]) {
			return fmt.Errorf("%s: %d bytes: %w", path, len(b), err)
		}
	}
	return nil
}

func fetchFile(ctx context.Context, c *http.Client, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// read reads all pieces in order, like a boot that the network delays.
func (s *benchBoot) read(ctx context.Context, n *Node) error {
	for i, p := range s.pieces {
		if every := len(s.pieces) / len(s.demand); i%every == 0 && i/every < len(s.demand) {
			x := s.demand[i/every]
			if v, err := n.Get(ctx, chunk.Request{ID: x.ID, Size: x.Size}); err != nil || v.ID() != x.ID {
				return fmt.Errorf("demand object %d: %w", i/every, cmp.Or(err, errNotIt))
			}
		}
		if v, err := n.Get(ctx, chunk.Request{ID: p.ID, Size: p.Size}); err != nil || v.ID() != p.ID {
			return fmt.Errorf("piece %d: %w", i, cmp.Or(err, errNotIt))
		}
	}
	return nil
}

var errNotIt = fmt.Errorf("another object came")

// quiet is an observer that ignores its events.
type quiet struct{}

func (quiet) Received(string, int)           {}
func (quiet) Failed(string, chunk.ID, error) {}
