package dhcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var spaces atomic.Int32

// netns is a network namespace with a bridge br0 that has the given address. It is removed with the test.
type netns struct {
	t    *testing.T
	name string
}

func newNetns(t *testing.T, address string) *netns {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	need(t, "ip")
	n := &netns{t: t, name: fmt.Sprintf("pdh%d-%d", os.Getpid(), spaces.Add(1))}
	n.host("ip", "netns", "add", n.name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", n.name).Run() })
	n.run("ip", "link", "set", "lo", "up")
	n.bridge(address)
	return n
}

// bridge makes br0.
func (n *netns) bridge(address string) {
	n.t.Helper()
	n.run("ip", "link", "add", "br0", "type", "bridge", "forward_delay", "0", "stp_state", "0", "mcast_snooping", "0")
	if address != "" {
		n.run("ip", "addr", "add", address, "dev", "br0")
	}
	n.run("ip", "link", "set", "br0", "up")
}

func need(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
}

// client makes another namespace whose eth0 is plugged into n's bridge.
func (n *netns) client(mac string) *netns {
	n.t.Helper()
	c := &netns{t: n.t, name: fmt.Sprintf("pdh%d-%d", os.Getpid(), spaces.Add(1))}
	n.host("ip", "netns", "add", c.name)
	n.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", c.name).Run() })
	c.run("ip", "link", "set", "lo", "up")
	n.plug(c, "eth0", mac)
	return c
}

// port is the name of the other end of a namespace's NIC.
func (n *netns) port(c *netns, nic string) string {
	return "v" + c.name[strings.LastIndex(c.name, "-")+1:] + nic
}

// plug gives another namespace a NIC that is plugged into n's bridge.
func (n *netns) plug(c *netns, nic, mac string) {
	n.t.Helper()
	port := n.port(c, nic)
	n.run("ip", "link", "add", port, "type", "veth", "peer", "name", nic, "address", mac, "netns", c.name)
	c.run("ip", "link", "set", nic, "up")
	n.join(c, nic, port)
}

// join makes a NIC's other end a port of n's bridge, and waits until it forwards.
func (n *netns) join(c *netns, nic, port string) {
	n.t.Helper()
	n.run("ip", "link", "set", port, "master", "br0", "up")
	for range 200 { // the kernel takes up to a second to see the carrier of a new port
		if strings.TrimSpace(n.run("cat", "/sys/class/net/br0/brif/"+port+"/state")) == "3" &&
			strings.TrimSpace(c.run("cat", "/sys/class/net/"+nic+"/operstate")) == "up" {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	n.t.Fatalf("bridge port %s does not forward", port)
}

func (n *netns) host(args ...string) {
	n.t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// cmd returns a command that runs inside and is killed when the test ends.
func (n *netns) cmd(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", n.name}, args...)...)
}

// try runs a command inside, for at most half a minute.
func (n *netns) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := n.cmd(ctx, args...).CombinedOutput()
	return string(out), err
}

func (n *netns) run(args ...string) string {
	n.t.Helper()
	out, err := n.try(args...)
	if err != nil {
		n.t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

// served is a helper that runs.
type served struct {
	t     *testing.T
	lines chan line
	all   []line
	stop  func()
}

// helper returns the command that runs the test binary inside.
func (n *netns) helper(spec helperSpec) *exec.Cmd {
	n.t.Helper()
	b, err := json.Marshal(spec)
	if err != nil {
		n.t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	cmd := n.cmd(context.Background(), exe)
	cmd.Env = append(os.Environ(), helperEnv+"="+string(b))
	return cmd
}

// serve starts the helper inside and waits until it listens.
func (n *netns) serve(spec helperSpec) *served {
	n.t.Helper()
	cmd := n.helper(spec)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	s := &served{t: n.t, lines: make(chan line, 4096)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.lines)
		sc := bufio.NewScanner(stdout)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			var l line
			if json.Unmarshal(sc.Bytes(), &l) == nil {
				s.lines <- l
			}
		}
	}()
	s.stop = sync.OnceFunc(func() {
		_ = stdin.Close()
		<-done
		if err := cmd.Wait(); err != nil { // with -race a race is seen here
			n.t.Errorf("helper: %v", err)
		}
	})
	n.t.Cleanup(s.stop)
	if !spec.Look && spec.Send == "" {
		s.until("ready", 20*time.Second, func(l line) bool { return l.Ready })
	}
	return s
}

// until reads lines until one fits. It fails the test if none does in time.
func (s *served) until(what string, limit time.Duration, fits func(line) bool) line {
	s.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case l, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("helper ended before: %s\n%s", what, s.dump())
			}
			s.all = append(s.all, l)
			if fits(l) {
				return l
			}
		case <-timer.C:
			s.t.Fatalf("not seen within %s: %s\n%s", limit, what, s.dump())
		}
	}
}

// logged waits for a log line that has all the words. A line that was read before counts.
func (s *served) logged(words ...string) {
	s.t.Helper()
	fits := func(l line) bool {
		for _, w := range words {
			if !strings.Contains(string(l.Log), w) {
				return false
			}
		}
		return true
	}
	if !slices.ContainsFunc(s.all, fits) {
		s.until("log "+strings.Join(words, " "), 5*time.Second, fits)
	}
}

// seen waits for a request that got a given answer.
func (s *served) seen(message, reply string) Seen {
	s.t.Helper()
	l := s.until(message+" -> "+reply, 30*time.Second, func(l line) bool {
		return l.Seen != nil && l.Seen.Message == message && l.Seen.Reply == reply
	})
	return *l.Seen
}

// rest reads lines until the helper ends.
func (s *served) rest() []line {
	for l := range s.lines {
		s.all = append(s.all, l)
	}
	return s.all
}

// drain reads the lines that are there, and returns all lines so far.
func (s *served) drain() []line {
	for {
		select {
		case l, ok := <-s.lines:
			if !ok {
				return s.all
			}
			s.all = append(s.all, l)
		default:
			return s.all
		}
	}
}

func (s *served) dump() string {
	var b strings.Builder
	for _, l := range s.all {
		j, _ := json.Marshal(l)
		b.Write(j)
		b.WriteByte('\n')
	}
	return b.String()
}
