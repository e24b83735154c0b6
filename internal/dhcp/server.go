package dhcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"pando/internal/fleet"
)

// watchEvery bounds how long the loop that looks for other servers waits: an overheard packet may make it look sooner.
const watchEvery = 500 * time.Millisecond

// afterError is the pause after a failed read: the interface went down, for example, and may come back.
const afterError = 100 * time.Millisecond

// maxPackets bounds the packets that are handled at once. Others are dropped; clients send again.
const maxPackets = 1024

// Server answers on the interfaces of its Config. Set the exported fields, then call Open and Run, or Run alone.
// They must not change after that. A server gives leases, each durable before it is acknowledged. A proxy (PXE 2.1)
// gives boot files and leaves addresses to the site's own server.
type Server struct {
	Config   Config
	Registry Registry
	Warn     func(message, hint string) // nil: no call. Called when a range comes to its end, once in a while
	Observe  func(Seen)                 // nil: no call. Called for each request, concurrently; the answer waits for it
	Found    func(Found, State)         // nil: no call. Called for a new server, and when this one stops or resumes
	Log      *slog.Logger               // nil: silent
	Now      func() time.Time           // nil: time.Now

	mu           sync.Mutex
	links        []*link // one for each interface; replaced when the interface was created again
	offers       offers
	ranges       ranges
	unknown      unknownLimit
	logLimit     logLimiter
	loading      loading
	sem          chan struct{}
	hurry        pace // how often the server looks for other servers; zero: usualPace
	clientQueues clientQueues
	wg           sync.WaitGroup
}

// State is what a server does on one interface, and which other servers it knows there.
type State struct {
	Interface  string
	Mode       Mode       // what is done now
	StoppedFor netip.Addr // the other server because of which Mode is Proxy where Own was configured; zero: none
	Others     []Found    // servers seen there
	Address    netip.Addr // this server's address
}

// Open checks the configuration and opens every socket. It is separate from Run so that what an
// operator has to fix is known before anything else starts.
func (s *Server) Open(ctx context.Context) error {
	if s.links != nil {
		return nil
	}
	if err := s.Config.Validate(); err != nil {
		return err
	}
	s.sem = make(chan struct{}, maxPackets)
	if s.Config.Mode == Off || s.Config.Mode == "" {
		return nil
	}
	if s.Registry == nil {
		return errors.New("DHCP: nothing to record leases in")
	}
	for _, name := range s.Config.Interfaces {
		l, err := s.openLink(ctx, name)
		if err != nil {
			for _, open := range s.links {
				open.close()
			}
			s.links = nil
			return fmt.Errorf("DHCP (%s): %w", s.Config.Mode, err)
		}
		s.links = append(s.links, l)
	}
	return nil
}

// Run answers until ctx ends and returns nil then.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Open(ctx); err != nil {
		return err
	}
	for i, l := range s.all() {
		s.log().Info("dhcp: serving", "mode", s.Config.Mode, "interface", l.ifi.Name, "address", l.first())
		s.wg.Go(func() { s.keep(ctx, i) })
	}
	<-ctx.Done()
	s.wg.Wait()
	s.countOften(s.now())
	return nil
}

// States returns the state on each interface.
func (s *Server) States() []State {
	links := s.all()
	out := make([]State, 0, len(links))
	for _, l := range links {
		out = append(out, l.state(s.Config.Mode))
	}
	return out
}

// all returns the present links.
func (s *Server) all() []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.links)
}

// read handles the packets of one port until the port is closed.
func (s *Server) read(ctx context.Context, l *link, conn *net.UDPConn, boot bool) {
	buf := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.seldom(l, slog.LevelWarn, "packet not read", "", "err", err)
			time.Sleep(afterError)
			continue
		}
		r, err := Parse(buf[:n])
		if err != nil {
			level := slog.LevelWarn
			if errors.Is(err, errNotForUs) {
				level = slog.LevelDebug
			}
			s.seldom(l, level, "packet dropped", level.String(), "from", from, "err", err)
			continue
		}
		select {
		case s.sem <- struct{}{}:
		default:
			s.seldom(l, slog.LevelWarn, "request dropped: too many at once", "", "mac", r.MAC)
			continue
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		s.wg.Go(func() {
			defer func() { <-s.sem }()
			s.handle(ctx, l, r, from, boot)
		})
	}
}

// handle answers one request. Requests of one client wait for each other: a client that waits sends again.
func (s *Server) handle(ctx context.Context, l *link, r Request, from netip.AddrPort, boot bool) {
	done, ok := s.clientQueues.take(r.MAC)
	if !ok {
		return
	}
	defer done()
	now := s.now()
	if r.looks() {
		s.answerLook(l, r, from, boot, now)
		return
	}
	if f, other := chosen(r, s.ownAddress); other && !boot {
		f.Interface = l.ifi.Name
		l.overheard(f, now)
	}
	s.loading.saw(r.MAC, r.Client.Kind, now)
	v, err := s.view(ctx, l, r, boot, now)
	if err != nil {
		s.seldom(
			l,
			slog.LevelError,
			"request not answered",
			"",
			"mac",
			r.MAC,
			"message",
			messageNames[r.Type],
			"err",
			err,
		)
		return
	}
	out := Answer(r, v.View, now)
	out.Seen.Interface = l.ifi.Name
	if out.Free {
		s.offers.free(r.MAC)
	}
	if out.Avoid.IsValid() {
		s.offers.refuse(r.MAC, out.Avoid, now.Add(declinedFor))
	}
	change := Change{Node: v.node, Seen: out.Seen}
	if v.allocation != nil {
		change.Leases = v.allocation.bad
	}
	if out.Save != nil {
		change.Leases = append(change.Leases, *out.Save)
	}
	if err := s.Registry.Commit(ctx, change); err != nil {
		s.seldom(l, slog.LevelError, "lease not recorded, so not acknowledged", "", "mac", r.MAC,
			"addr", out.Seen.Addr, "err", err)
		return
	}
	if out.Save != nil {
		s.ranges.learn(*out.Save)
		if out.Seen.Reply == "ACK" {
			s.offers.settle(r.MAC, out.Save.Addr, now)
		}
	}
	if out.Alert != "" {
		s.seldom(l, slog.LevelError, out.Alert, "")
	}
	if s.Observe != nil {
		s.Observe(out.Seen)
	}
	s.log().Debug("dhcp", "mac", r.MAC, "interface", l.ifi.Name, "message", messageNames[r.Type], "kind", r.Client.Kind,
		"reply", out.Seen.Reply, "addr", out.Seen.Addr, "file", out.Seen.BootFile, "reason", out.Seen.Reason)
	if out.Packet == nil {
		return
	}
	if err := l.send(out, r, v.View, from); err != nil {
		s.seldom(l, slog.LevelWarn, "reply not sent", "", "mac", r.MAC, "err", err)
	}
}

// ownAddress reports whether an address is this server's, on any interface.
func (s *Server) ownAddress(a netip.Addr) bool {
	return slices.ContainsFunc(s.all(), func(l *link) bool { return l.has(a) })
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

func (s *Server) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

// clientQueues makes the requests of one client wait for each other.
type clientQueues struct {
	mu sync.Mutex
	m  map[fleet.MAC]*clientQueue
}

type clientQueue struct {
	mu sync.Mutex
	n  int // running and waiting
}

// maxWaiting bounds the requests of one client that wait.
const maxWaiting = 4

// take waits until the earlier requests of a client are done. The caller calls done when its own is done. ok is false
// if too many wait.
func (t *clientQueues) take(mac fleet.MAC) (done func(), ok bool) {
	t.mu.Lock()
	if t.m == nil {
		t.m = map[fleet.MAC]*clientQueue{}
	}
	e := t.m[mac]
	if e == nil {
		e = &clientQueue{}
		t.m[mac] = e
	}
	if e.n >= maxWaiting {
		t.mu.Unlock()
		return nil, false
	}
	e.n++
	t.mu.Unlock()
	e.mu.Lock()
	return func() {
		e.mu.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		if e.n--; e.n == 0 {
			delete(t.m, mac)
		}
	}, true
}
