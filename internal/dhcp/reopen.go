package dhcp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// An interface that was deleted and created again (a USB NIC, a bridge, a VLAN) has its old name and a new index.
// Sockets stay bound to the old index: they receive nothing and return no error. So the index is checked regularly.
const (
	checkEvery = time.Second
	openFirst  = 250 * time.Millisecond // pause before the second attempt to open; it doubles
	openMost   = 5 * time.Second
)

// keep serves one interface until ctx ends. If the interface is deleted and created again, it serves the new one.
func (s *Server) keep(ctx context.Context, slot int) {
	for l := s.all()[slot]; l != nil; l = s.reopen(ctx, l, slot) {
		s.serve(ctx, l)
		if ctx.Err() != nil {
			return
		}
		s.log().
			Error("dhcp: THE INTERFACE IS GONE; nothing is answered there until it is back with an "+
				"address", "interface", l.ifi.Name)
	}
}

// serve answers on an interface until ctx ends or the interface is gone, and closes the link's sockets.
func (s *Server) serve(ctx context.Context, l *link) {
	var wg sync.WaitGroup
	wg.Go(func() { s.read(ctx, l, l.dhcp, false) })
	wg.Go(func() { s.read(ctx, l, l.boot, true) })
	wg.Go(l.arp.run)
	wg.Go(func() { s.watch(ctx, l) })
	if l.router != nil {
		wg.Go(func() { s.answerSolicitations(ctx, l) })
	}
	t := time.NewTicker(checkEvery)
	defer t.Stop()
	for gone := false; !gone; {
		select {
		case <-ctx.Done():
			gone = true
		case <-t.C:
			gone = l.gone()
		}
	}
	l.close()
	wg.Wait()
}

// reopen opens a link in the place of one whose interface is gone. It returns nil when ctx ends.
func (s *Server) reopen(ctx context.Context, old *link, slot int) *link {
	for pause := openFirst; ; pause = min(2*pause, openMost) {
		l, err := s.openLink(ctx, old.ifi.Name)
		if err == nil {
			l.others = old.standing()
			s.mu.Lock()
			s.links[slot] = l
			s.mu.Unlock()
			s.log().
				Warn("dhcp: the interface is back", "mode", l.state(s.Config.Mode).Mode, "interface", l.ifi.Name,
					"address", l.first())
			return l
		}
		s.log().Debug("dhcp: the interface is not back yet", "interface", old.ifi.Name, "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// gone reports whether the link's interface no longer exists. Another interface may have its name now.
func (l *link) gone() bool {
	index, err := l.raw.indexOf(l.ifi.Name)
	return errors.Is(err, unix.ENODEV) || err == nil && index != l.ifi.Index
}

// indexOf returns the index of the interface that has a name now.
func (s *packetSocket) indexOf(name string) (index int, err error) {
	req, err := unix.NewIfreq(name)
	if err != nil {
		return 0, fmt.Errorf("interface %s: %w", name, err)
	}
	cerr := s.raw.Control(func(fd uintptr) { err = unix.IoctlIfreq(int(fd), unix.SIOCGIFINDEX, req) })
	return int(req.Uint32()), errors.Join(cerr, err)
}
