package boot

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"pando/internal/trace"
)

// attrObject is the attribute of an incident's event that names the object, in 64 hex digits.
const attrObject = "object"

// counted is what the block daemon has counted. What went wrong since the last look is told.
func (a *agent) counted(ctx context.Context) (BlockStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	b, err := a.block.Status(ctx, a.progress.Incidents)
	if err != nil {
		a.logf("block daemon: %v", err)
		return b, err
	}
	a.incidents(b)
	return b, nil
}

// incidents turns what went wrong below the root into facts on the timeline.
func (a *agent) incidents(b BlockStatus) {
	for _, i := range b.Incidents {
		if i.Sequence <= a.progress.Incidents {
			continue
		}
		a.event(a.incident(i))
		a.progress.Incidents = i.Sequence
		a.keepProgress()
	}
}

// incident is the event of an incident, at the moment when it was: while the server is away the agent looks seldom,
// and is heard late.
func (a *agent) incident(i Incident) trace.Event {
	message := string(i.Kind) + ": " + i.Message
	if i.Source != "" {
		message = fmt.Sprintf("%s (%s)", message, i.Source)
	}
	e := trace.Event{
		Stage:   trace.SwitchRoot,
		Kind:    trace.Info,
		Offset:  max(0, i.At-a.session.Origin),
		Message: message,
		Hint:    incidentHints[i.Kind],
		Attrs:   map[string]string{trace.AttrIncident: string(i.Kind)},
	}
	if a.booted.Load() && i.At >= a.progress.BootedAt {
		e.Stage = trace.Booted
	}
	if i.Object != "" {
		e.Attrs[attrObject] = i.Object
	}
	return e
}

// incidentHints say what to do about each kind of incident; "": nothing, for it is good news.
var incidentHints = map[IncidentKind]string{
	WrongBytes: "run `pando store check` on the server; it finds and names objects that are damaged",
	Missing:    "the version is not whole on that server: build or copy it again",
	ServerDown: "reads wait, and go on when it answers: does `pando serve` run there, and does the network lead there?",
	ServerUp:   "",
	Reattached: "reads went on by themselves; if it comes again the node may be short of memory, which its " +
		"kernel's log says",
	LinkFixed:   "something on the node took it away: have what manages the image's network leave that interface alone",
	LostPiece:   "the boot goes on with more bytes; `pando store check` on the server names what is damaged",
	PeerBanned:  "nothing wrong was used; look after that machine: its memory or its network may change bytes",
	PeerFailed:  "the piece comes from others; if it is often the same machine, look after its link",
	PeerLeft:    "the boot goes on without it; if it is often the same machine, look after its link",
	PeersGone:   "they were switched off or reset, or the network lost them; the boot goes on without them",
	TrackerLost: "the boot goes on, and the server sends more of it: does `pando serve` run there?",
	TrackerUp:   "",
	BrokenImage: "build the image again",
	CacheFailed: "the node goes on without its cache: is the disk broken, or was it pulled out? `pando node " +
		"cache` prepares one",
	CacheDamaged: "it was fetched again; if it comes again the disk is failing: `pando node cache` prepares another",
}

// IncidentKinds are all kinds of incidents.
func IncidentKinds() []IncidentKind { return slices.Sorted(maps.Keys(incidentHints)) }
