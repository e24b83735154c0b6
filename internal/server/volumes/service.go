package volumes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/trace"
	"pando/internal/volume"
)

// volumesDir is the directory of volumes, in the data directory.
const volumesDir = "volumes"

// Path is where a connection to the image port becomes an NBD connection to a volume. The image port is plain HTTP, so
// that the node's kernel can use the connection. The control port decides which node may connect and gives it a ticket.
const (
	Path         = "/v1/volume"
	volumeExport = "volume" // the NBD name of the export
	ticketLife   = 30 * time.Second
)

// Service serves volumes and swap space to nodes.
type Service struct {
	registry *registry.Registry
	volumes  *volume.Dir
	swaps    *volume.Swaps
	tickets  tickets
	told     told
	nodes    Reporter
	port     func() uint16 // the image port
	now      func() time.Time
	log      *slog.Logger
}

// Reporter authenticates the requests of nodes.
type Reporter interface {
	// Reporter returns the boot `boot` if the request proves that it comes from that boot.
	Reporter(r *http.Request, boot fleet.BootID) (registry.Boot, error)
}

// Options are what a Service needs.
type Options struct {
	Dir      string // the data directory
	Registry *registry.Registry
	Nodes    Reporter
	Port     func() uint16 // the image port
	Now      func() time.Time
	Log      *slog.Logger
}

// Open opens the volumes and the swap space in the data directory.
func Open(o Options) (*Service, error) {
	swaps, err := volume.OpenSwaps(filepath.Join(o.Dir, swapsDir), o.Log)
	return &Service{registry: o.Registry, volumes: volume.Open(filepath.Join(o.Dir, volumesDir), o.Log),
		swaps: swaps, nodes: o.Nodes, port: o.Port, now: o.Now, log: o.Log}, err
}

// Dir returns the volumes, for the package that manages them.
func (s *Service) Dir() *volume.Dir { return s.volumes }

// Wait returns when the programs that serve volumes and swap space have ended.
func (s *Service) Wait() {
	s.volumes.Wait()
	s.swaps.Wait()
}

// tickets are rights to connect to a volume. Each is valid once, for ticketLife.
type tickets struct {
	mu   sync.Mutex
	open map[string]ticket
}

type ticket struct {
	boot registry.Boot
	want volume.Want
	ends time.Time

	swap, used bool // the ticket is for swap space; the node has pages in it
}

func (t *tickets) give(x ticket, now time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, old := range t.open {
		if old.ends.Before(now) {
			delete(t.open, k)
		}
	}
	if t.open == nil {
		t.open = map[string]ticket{}
	}
	secret := rand.Text()
	x.ends = now.Add(ticketLife)
	t.open[secret] = x
	return secret
}

func (t *tickets) take(secret string, now time.Time) (ticket, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x, ok := t.open[secret]
	delete(t.open, secret)
	return x, ok && x.ends.After(now)
}

// NodeVolume answers POST /v1/node/volume.
func (s *Service) NodeVolume(w http.ResponseWriter, r *http.Request) error {
	req, err := httpapi.DecodeReport[api.VolumeRequest](w, r)
	if err != nil {
		return err
	}
	b, err := s.nodes.Reporter(r, req.Boot)
	if err != nil {
		return err
	}
	if b.Session.IsZero() {
		return api.NewError(api.Unauthorized, "the boot has no session yet", "")
	}
	x := ticket{boot: b, swap: req.Swap, used: req.Used}
	if req.Swap {
		err = s.wantedSwap(r.Context(), &x)
	} else {
		err = s.wantedVolume(r.Context(), &x)
	}
	if err != nil {
		return err
	}
	return httpapi.Reply(
		w,
		api.VolumeTicket{
			Address: netip.AddrPortFrom(httpapi.LocalAddr(r), s.port()).String(),
			Path:    Path,
			Export:  volumeExport,
			Ticket:  s.tickets.give(x, s.now()),
		},
	)
}

// wantedVolume sets in a ticket the volume that the node's settings ask for now. A volume can be enlarged while the
// node runs; that takes effect when the node connects again.
func (s *Service) wantedVolume(ctx context.Context, x *ticket) error {
	g, err := s.settingsOf(ctx, x.boot.Node)
	if err != nil {
		return err
	}
	st, err := fleet.ParseState(g.StateText())
	if err == nil && st.Kind != fleet.StateVolume {
		err = api.NewError(
			api.Conflict,
			"node "+x.boot.Node+" keeps its state on no volume",
			"reboot it: its settings changed since it booted",
		)
	}
	x.want = volume.Want{Size: st.Size, FileSystem: st.FileSystem}
	return err
}

// settingsOf returns a node's group with the node's own settings applied.
func (s *Service) settingsOf(ctx context.Context, name string) (g fleet.Group, err error) {
	err = s.registry.View(ctx, func(tx *registry.Tx) error {
		n, err := tx.Node(name)
		if err != nil {
			return err
		}
		if g, err = tx.Group(n.Group); err != nil {
			return err
		}
		g = n.Settings.Of(g)
		return nil
	})
	return g, err
}

// ServeVolume answers GET /v1/volume: it turns the connection into an NBD connection to the volume.
func (s *Service) ServeVolume(w http.ResponseWriter, r *http.Request) error {
	secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Ticket ")
	x, ok := s.tickets.take(secret, s.now())
	if !ok || r.Header.Get("Upgrade") != "nbd" {
		return api.NewError(api.Unauthorized, "no valid ticket for a volume", "")
	}
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("volume of %s: %w", x.boot.Node, err)
	}
	defer c.Close()
	if buffered.Reader.Buffered() > 0 {
		return nil // the client sent data before the answer
	}
	_ = c.SetDeadline(time.Time{}) // no time limit from here on; if this fails, the next write fails
	if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+
		"nbd\r\n\r\n"); err != nil {
		return nil // the client is gone
	}
	s.attachVolume(r.Context(), x, c)
	return nil
}

// attachVolume serves a volume until the connection ends. If the volume cannot be attached, the node's timeline says
// why.
func (s *Service) attachVolume(ctx context.Context, x ticket, c net.Conn) {
	if x.swap {
		s.attachSwap(ctx, x, c)
		return
	}
	s.log.Info("volume attached", "node", x.boot.Node)
	err := s.volumes.Serve(ctx, x.boot.Node, x.want, c)
	s.log.Info("volume detached", "node", x.boot.Node, "err", err)
	if err == nil || errors.Is(err, volume.ErrTaken) || ctx.Err() != nil {
		return
	}
	s.tellOf(
		ctx,
		x.boot,
		"the node's volume: "+err.Error(),
		"its state waits until the server can give it: is there room, and are qemu-utils and e2fsprogs installed "+
			"there?",
	)
}

// reasonsMost is how many different messages the timeline of one boot gets.
const reasonsMost = 20

// told has the messages that were added to the timeline of each node's latest boot. A node tries again for ever.
type told struct {
	mu    sync.Mutex
	boots map[string]toldBoot // by node
}

type toldBoot struct {
	id       fleet.BootID
	messages map[string]bool
}

// first reports whether the timeline of b should get a message, and remembers that it has it.
func (t *told) first(b registry.Boot, message string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.boots == nil {
		t.boots = map[string]toldBoot{}
	}
	if t.boots[b.Node].id != b.ID {
		t.boots[b.Node] = toldBoot{b.ID, map[string]bool{}}
	}
	has := t.boots[b.Node].messages
	if has[message] || len(has) >= reasonsMost {
		return false
	}
	has[message] = true
	return true
}

// forget makes first report true again for a message that could not be added.
func (t *told) forget(b registry.Boot, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.boots[b.Node].messages, message)
}

// drop forgets a node that was deleted.
func (t *told) drop(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.boots, node)
}

// tellOf adds an entry to the timeline of a boot that is up, once for each message.
func (s *Service) tellOf(ctx context.Context, b registry.Boot, message, hint string) {
	if !s.told.first(b, message) {
		return
	}
	e := trace.Event{
		Time:    s.now(),
		Boot:    b.ID,
		Node:    b.Node,
		MAC:     b.MAC,
		Stage:   trace.SwitchRoot,
		Kind:    trace.Info,
		Message: message,
		Hint:    hint,
	}
	if _, err := s.registry.Append(ctx, e); err != nil {
		s.told.forget(b, message)
		s.log.Error("problem of a volume cannot be recorded", "node", b.Node, "err", err)
	}
}
