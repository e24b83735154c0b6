package swarm

import (
	"net/netip"
	"slices"
	"time"

	"pando/internal/chunk"
)

// Ticket is a place in a line.
type Ticket int

// startLine is where boots of one area stand that wait for what they start with. Those of another wait for other
// nodes, and have a line of their own. The first of them gets what there is: a hundred that all had a part of the
// link would all wait for as long as the last.
type startLine struct {
	area  area
	boots []startBoot
	look  time.Duration // not before is it looked whether there is something for the first
	due   time.Duration // no boot has waited for long enough before
}

// startBoot is a boot that waits for what it starts with.
type startBoot struct {
	ticket Ticket
	start  Start
	node   netip.Addr
	until  time.Duration // no longer
}

// QueuedStart is the answer to a boot that stood in line.
type QueuedStart struct {
	Ticket Ticket
	StartAnswer
}

// startHoldFor is how long a start is held for a node that waits for so long, where word is so late; 0: it did not
// say. Who says more than a node would where it was told how late word is holds no place in line by that.
func startHoldFor(patience, late time.Duration) time.Duration {
	return max(startHold, min(patience, StartPatience(late))/2)
}

// StartSize is about how many bytes a boot starts with whose pack has so many pieces: manifest, signature and map.
func StartSize(pieces int) int64 { return startFiles + int64(pieces)*startPiece }

// StandStart has a boot stand in the line of its area. StepStarts answers.
func (t *Tracker) StandStart(now time.Duration, node netip.Addr, s Start, patience time.Duration) Ticket {
	key := areaOf(s.Swarm, s.Place, s.Subnet, s.Near)
	i := slices.IndexFunc(t.starts, func(l *startLine) bool { return l.area == key })
	if i < 0 {
		i = len(t.starts)
		t.starts = append(t.starts, &startLine{area: key})
	}
	t.starting++
	until := now + startHoldFor(patience, t.Late(s.Swarm, t.starting))
	ticket := t.ticket()
	t.starts[i].boots = append(t.starts[i].boots, startBoot{ticket, s, node, until})
	l := t.starts[i]
	if l.due = min(l.due, until); len(l.boots) == 1 {
		l.look, l.due = now, until
	}
	return ticket
}

// LeaveStart takes a boot out of its line.
func (t *Tracker) LeaveStart(x Ticket) {
	for _, l := range t.starts {
		if i := slices.IndexFunc(l.boots, func(b startBoot) bool { return b.ticket == x }); i >= 0 {
			l.boots = slices.Delete(l.boots, i, i+1)
			if t.starting--; i == 0 {
				l.look = 0 // the next one's turn is at once
			}
			break
		}
	}
	t.starts = slices.DeleteFunc(t.starts, func(l *startLine) bool { return len(l.boots) == 0 })
}

// StepStarts returns the answers that are due, and the moment at which it shall be called again, 0 when nobody
// waits. A boot for which there was no room, and nobody to name, is told to ask again; one that does not know that
// turns to the server.
func (t *Tracker) StepStarts(now time.Duration) (replies []QueuedStart, wake time.Duration) {
	for _, l := range t.starts {
		for len(l.boots) > 0 && now >= l.look {
			b := l.boots[0]
			a, ok := t.startNow(now, b.start, b.node)
			if !ok {
				l.look = now + t.startPause(b.start.Size)
				break
			}
			replies = append(replies, QueuedStart{b.ticket, a})
			l.boots, l.look = l.boots[1:], 0
			t.starting--
		}
		if now >= l.due {
			replies = append(replies, t.expireStarts(now, l)...)
		}
		if len(l.boots) > 0 {
			wake = Earlier(wake, min(max(l.look, now+1), l.due))
		}
	}
	t.starts = slices.DeleteFunc(t.starts, func(l *startLine) bool { return len(l.boots) == 0 })
	return replies, wake
}

// startPause is until when it is looked again whether there is something for a boot: a node that gives it to
// another is free after as long as that takes. On a fast link 20 ms are a tenth of a boot.
func (t *Tracker) startPause(size int64) time.Duration {
	if t.uplink.rate == 0 {
		return startLook
	}
	return min(max(time.Millisecond, t.uplink.time(size)), startLook)
}

// expireStarts answers the boots of a line that have waited for long enough.
func (t *Tracker) expireStarts(now time.Duration, l *startLine) (replies []QueuedStart) {
	first := l.boots[:min(len(l.boots), 1)]
	if len(first) > 0 && now >= first[0].until {
		l.look = 0
	}
	kept := l.boots[:0]
	l.due = now + startMost
	for _, b := range l.boots {
		if now < b.until {
			kept, l.due = append(kept, b), min(l.due, b.until)
			continue
		}
		replies = append(
			replies,
			QueuedStart{b.ticket, StartAnswer{Again: true, Late: t.Late(b.start.Swarm, t.starting)}},
		)
		t.starting--
	}
	l.boots = kept
	return replies
}

// startNow is the answer to a start if there is one now.
func (t *Tracker) startNow(now time.Duration, start Start, from netip.Addr) (StartAnswer, bool) {
	id, err := chunk.ParseID(start.Swarm)
	key := grant{from, id.Brief()}
	_, told := t.grants.all[key]
	start.Told = err == nil && (told || !t.grants.hasRoom(from))
	peers, wait := t.Start(now, start)
	if err == nil && !wait && !start.Told { // the server may have to send the map, too
		t.grants.allow(now, key, granted{Waiter: Waiter{Pack: start.Swarm}, piece: mapPiece})
		t.grants.expire(now)
	}
	return StartAnswer{Peers: peers, Late: t.Late(start.Swarm, t.starting)}, !wait
}

func (t *Tracker) ticket() Ticket {
	t.tickets++
	return t.tickets
}
