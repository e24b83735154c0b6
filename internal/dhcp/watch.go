package dhcp

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"time"
)

func (s *Server) pace() pace {
	if s.hurry == (pace{}) {
		return usualPace()
	}
	return s.hurry
}

// watch looks for other servers, and reads their answers, until ctx ends or the socket is closed.
func (s *Server) watch(ctx context.Context, l *link) {
	tell := func(f Found, id uint32) { s.sawServer(l, f, id) }
	var swept time.Time
	for ctx.Err() == nil {
		now := s.now()
		if !now.Before(l.nextQuestion()) {
			if q, err := l.look.ask(now); err == nil {
				l.asked(q)
			} else if !errors.Is(err, os.ErrClosed) {
				s.seldom(l, slog.LevelWarn, "DISCOVER for other servers cannot be sent", "", "err", err)
				l.postpone(now) // the interface is down, so no other server counts as gone
			}
		}
		s.goneServer(l, now)
		if now.Sub(swept) >= logInterval {
			swept = now
			s.sweep(now)
			s.checkRoom(ctx, l, now)
		}
		if err := l.look.collect(time.Now().Add(watchEvery), tell); err != nil {
			return
		}
	}
}

// sweep removes expired offers and other expired records of clients from memory.
func (s *Server) sweep(now time.Time) {
	s.offers.expire(now)
	s.loading.expire(now)
	s.countOften(now.Add(-logInterval))
}

// sawServer records an answer of another server, and logs what changed by it.
func (s *Server) sawServer(l *link, f Found, id uint32) {
	if s.ownAddress(f.Server) {
		return
	}
	did := l.answered(f, id, s.now())
	switch {
	case did == nothing:
		return
	case did == hasStopped:
		s.seldom(l, slog.LevelError, "stopped giving addresses: another DHCP server answers. Known clients are "+
			"renewed, boot files are offered beside it. Addresses are given again when it is silent",
			f.Server.String(), "server", f.Server, "offers", f.Offers, "pando", f.Pando != "")
	case f.Proxy:
		s.seldom(l, slog.LevelWarn, "another boot server (proxyDHCP) is on this network; firmware takes whichever "+
			"answers first", "", "server", f.Server)
	case f.Pando != "":
		s.seldom(l, slog.LevelWarn, "another Pando gives addresses on this network", "", "server", f.Server)
	default:
		s.seldom(l, slog.LevelInfo, "a DHCP server is on this network", "", "server", f.Server)
	}
	if s.Found != nil {
		s.Found(f, l.state(s.Config.Mode))
	}
}

// goneServer gives addresses again when the server that made this one stop no longer answers.
func (s *Server) goneServer(l *link, now time.Time) {
	gone := l.expire(now)
	if !gone.IsValid() {
		return
	}
	s.seldom(l, slog.LevelWarn, "giving addresses again: the other DHCP server is silent", gone.String(),
		"server", gone)
	if s.Found != nil {
		s.Found(Found{Interface: l.ifi.Name, Server: gone}, l.state(s.Config.Mode))
	}
}

// answerLook answers a DISCOVER by which another Pando looks for servers. It reads and writes no records.
func (s *Server) answerLook(l *link, r Request, from netip.AddrPort, boot bool, now time.Time) {
	v := s.lookView(l, r, boot, now)
	out := Answer(r, v, now)
	if out.Packet == nil {
		return
	}
	if err := l.send(out, r, v, from); err != nil {
		s.seldom(l, slog.LevelWarn, "reply not sent", "", "mac", r.MAC, "err", err)
	}
}

func (s *Server) lookView(l *link, r Request, boot bool, now time.Time) View {
	st := l.state(s.Config.Mode)
	v := View{Mode: st.Mode, StoppedFor: st.StoppedFor, Server: st.Address, BootPort: boot, Loaders: s.Config.loaders(),
		Rank: l.rank(now)}
	if v.Mode == Own {
		if v.Subnet = s.subnet(l, r, netip.Addr{}); v.Subnet != nil {
			v.Server, v.Offer = l.within(v.Subnet.Prefix), v.Subnet.sample(r.MAC)
		}
	}
	v.Base = s.base(v.Server)
	return v
}

func (l *link) nextQuestion() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.others.next()
}

func (l *link) asked(q question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.others.ask(q)
}

func (l *link) postpone(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.others.failed = now
}

func (l *link) expire(now time.Time) netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.others.expire(now)
}

func (l *link) rank(now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.others.rank(now)
}
