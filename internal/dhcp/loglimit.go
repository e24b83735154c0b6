package dhcp

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// logInterval is how long lines of one kind are counted instead of written.
const logInterval = time.Minute

// maxKinds bounds the kinds of lines that are counted, against made-up addresses.
const maxKinds = 1024

// logLimiter limits log lines that any packet can cause. The first line of a kind is written; those that follow within
// logInterval are counted, and written at the level Debug only.
type logLimiter struct {
	mu    sync.Mutex
	kinds map[string]*kind
}

type kind struct {
	level slog.Level
	msg   string
	iface string
	since time.Time
	more  int
}

// admit counts a line, and reports whether it should be written.
func (o *logLimiter) admit(k kind, about string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := fmt.Sprintf("%s %s %s", k.msg, k.iface, about)
	if old := o.kinds[key]; old != nil {
		old.more++
		return false
	}
	if len(o.kinds) >= maxKinds {
		return false
	}
	if o.kinds == nil {
		o.kinds = map[string]*kind{}
	}
	o.kinds[key] = &k
	return true
}

// expire ends the counting of kinds whose first line is older than a time, and returns those that had further lines.
func (o *logLimiter) expire(before time.Time) (more []kind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, k := range o.kinds {
		switch {
		case !k.since.Before(before):
		case k.more == 0:
			delete(o.kinds, key) // no further line came: the next one is written again
		default:
			more = append(more, *k)
			k.since, k.more = k.since.Add(logInterval), 0
		}
	}
	return more
}

// seldom logs a line that many packets can cause, and reports whether it was not too soon for it. Lines with the same
// message and another `about` have a limit of their own.
func (s *Server) seldom(l *link, level slog.Level, msg, about string, args ...any) (due bool) {
	args = append(args, "interface", l.ifi.Name)
	if due = s.logLimit.admit(kind{level: level, msg: msg, iface: l.ifi.Name, since: s.now()}, about); !due {
		level = slog.LevelDebug
	}
	s.log().Log(context.Background(), level, "dhcp: "+msg, args...)
	return due
}

// countOften logs how many further lines there were of each kind whose first line is older than a time.
func (s *Server) countOften(before time.Time) {
	for _, k := range s.logLimit.expire(before) {
		s.log().
			Log(context.Background(), k.level, "dhcp: "+k.msg, "interface", k.iface, "again", k.more, "since", k.since)
	}
}
