package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/nbd"
)

// swapping is a node that requests its swap space.
type swapping struct {
	*node
	session string
	boot    fleet.BootID
}

func (n *swapping) ask(used bool) (t api.VolumeTicket, e *api.Error) {
	n.t.Helper()
	e = n.post("/v1/node/volume", n.session, api.VolumeRequest{Boot: n.boot, Swap: true, Used: used}, &t)
	return t, e
}

// attach connects with a ticket and returns the size of the swap space.
func (n *swapping) attach(used bool) (net.Conn, int64) {
	n.t.Helper()
	t, e := n.ask(used)
	if e != nil {
		n.t.Fatalf("ask for swap space: %v", e)
	}
	c, err := net.Dial("tcp", t.Address)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	fmt.Fprintf(
		c,
		"GET %s HTTP/1.1\r\nHost: pando\r\nConnection: Upgrade\r\nUpgrade: nbd\r\nAuthorization: Ticket %s\r\n\r\n",
		t.Path,
		t.Ticket,
	)
	r := bufio.NewReaderSize(
		io.LimitReader(
			c,
			int64(len("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: nbd\r\n\r\n")),
		),
		16,
	)
	if head, err := io.ReadAll(r); err != nil || !strings.HasPrefix(string(head), "HTTP/1.1 101 ") {
		n.t.Fatalf("%q, %v", head, err)
	}
	about, err := nbd.Enter(c, t.Export)
	if err != nil {
		n.t.Fatal(err)
	}
	return c, about.Size
}

// gone waits until the server has noticed the end of a connection.
func (n *swapping) gone(c net.Conn) {
	n.t.Helper()
	c.Close()
	for range 500 {
		if _, err := os.Stat(filepath.Join(n.cfg.Dir, "swap", n.bootOf(n.boot).Node+".pid")); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	n.t.Fatal("the daemon of the swap space does not end")
}

func (n *swapping) files() []string {
	n.t.Helper()
	all, err := filepath.Glob(filepath.Join(n.cfg.Dir, "swap", "*.swap"))
	if err != nil {
		n.t.Fatal(err)
	}
	return all
}

func startSwapping(t *testing.T) (*swapping, *api.Client) {
	t.Helper()
	if _, err := exec.LookPath("qemu-storage-daemon"); err != nil {
		t.Skip(err)
	}
	s := startSite(t)
	s.withSystemd("257.8-1")
	n := &swapping{node: s.node(1)}
	n.boot, n.session = s.running(n.node)
	c := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	t.Cleanup(c.Close)
	return n, c
}

// A node gets the swap space of its group's setting, and keeps its pages over restarts of the server and changes of the
// setting. If they are lost, the node gets an error, and its timeline says so. A deleted node's swap space is removed.
func TestSwapSpace(t *testing.T) {
	n, c := startSwapping(t)
	name := n.bootOf(n.boot).Node
	if _, e := n.ask(false); e == nil || e.Code != api.Conflict {
		t.Errorf("swap space that nobody wants: %v", e)
	}
	swap, none := "volume 128MiB", "none"
	set := func(text *string) {
		if _, err := c.SetGroup(t.Context(), fleet.DefaultGroup,
			api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{Swap: text}}}); err != nil {
			t.Fatal(err)
		}
	}
	set(&swap)
	conn, size := n.attach(false)
	if size != 128<<20 {
		t.Errorf("%d bytes of swap space", size)
	}
	set(&none)
	n.gone(conn)
	n.restart()
	conn, _ = n.attach(true)
	n.gone(conn)
	if _, e := n.ask(false); e == nil {
		t.Error("its group says none, and it gets a fresh one")
	}

	all := n.files()
	if len(all) != 1 || !strings.Contains(all[0], name+"@"+string(n.boot)+"@") {
		t.Fatalf("files: %v", all)
	}
	if err := os.Rename(all[0],
		filepath.Join(filepath.Dir(all[0]), name+"@"+string(n.boot)+"@another-boot-of-the-machine.swap")); err != nil {
		t.Fatal(err)
	}
	if _, e := n.ask(true); e == nil || e.Code != api.NotFound {
		t.Errorf("what was lost is given: %v", e)
	}
	b, err := c.NodeBoot(t.Context(), name)
	if err != nil || !strings.Contains(fmt.Sprint(b.Events), "swapped out is not here") {
		t.Errorf("the timeline says nothing of it: %v %v", b.Events, err)
	}
	set(&swap)
	conn, _ = n.attach(false)
	n.gone(conn)
	if err := n.volumes.PruneSwap(t.Context()); err != nil || len(n.files()) != 1 {
		t.Errorf("swap space of a boot that is on: %v, %v", n.files(), err)
	}
	if _, err := c.DeleteNodes(t.Context(), name, false); err != nil {
		t.Fatal(err)
	}
	if got := n.files(); len(got) != 0 {
		t.Errorf("left of a node that was deleted: %v", got)
	}
}

// The swap space of a boot is removed when the node has booted again.
func TestSwapSpaceOfABootBefore(t *testing.T) {
	n, c := startSwapping(t)
	swap := "volume 64MB"
	if _, err := c.SetGroup(t.Context(), fleet.DefaultGroup,
		api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{Swap: &swap}}}); err != nil {
		t.Fatal(err)
	}
	conn, _ := n.attach(false)
	n.gone(conn)
	session, boot := n.session, n.boot
	n.boot, n.session = n.running(n.node)
	if e := n.post("/v1/node/volume", session, api.VolumeRequest{Boot: boot, Swap: true, Used: true}, nil); e == nil ||
		e.Code != api.Unauthorized {
		t.Errorf("a boot that is over gets its swap space: %v", e)
	}
	if err := n.volumes.PruneSwap(t.Context()); err != nil || len(n.files()) != 0 {
		t.Errorf("swap space of a boot that is over: %v, %v", n.files(), err)
	}
}

// A node that a declaration prunes leaves no swap space either.
func TestSwapSpaceOfAPrunedNode(t *testing.T) {
	n, c := startSwapping(t)
	swap := "volume 64MB"
	if _, err := c.SetGroup(t.Context(), fleet.DefaultGroup,
		api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{Swap: &swap}}}); err != nil {
		t.Fatal(err)
	}
	conn, _ := n.attach(false)
	n.gone(conn)
	if len(n.files()) != 1 {
		t.Fatalf("files: %v", n.files())
	}
	apply(t, c, api.Apply{Declaration: api.Declaration{Owns: api.Owns{Nodes: "@all"}}, Prune: true})
	if got := n.files(); len(got) != 0 {
		t.Errorf("left of a node that was pruned: %v", got)
	}
}
