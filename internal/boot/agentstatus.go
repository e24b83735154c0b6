package boot

import (
	"context"
	"fmt"
	"maps"
	"time"

	"pando/internal/api"

	"golang.org/x/sys/unix"
)

// status reads the daemons' counters and systemd's figures, reports incidents, and posts the whole when
// something changed or some time passed.
func (a *agent) status(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s := api.NodeStatus{Version: a.session.Version, Bytes: map[string]int64{}}
	if b, err := a.block.Status(asked, a.progress.Incidents); err != nil {
		a.logf("block daemon: %v", err)
	} else {
		s.Bytes, s.Reads, s.Rejected, s.Stalled = b.Bytes, b.Reads, b.Rejected, b.Stalled
		a.incidents(b)
	}
	s.UpperUsed, s.UpperTotal = upperSpace("/")
	if a.booted.Load() && a.systemd == nil {
		a.systemd = readSystemd(ctx)
	}
	s.Systemd = a.systemd
	if !a.due(s) {
		return
	}
	post, cancelPost := context.WithTimeout(ctx, 15*time.Second)
	defer cancelPost()
	if err := a.send(post, nil, &s); err != nil {
		a.logf("report status: %v", err)
		return
	}
	a.last, a.sent = s, time.Now()
}

// due tells whether a status is worth sending: at once while people watch a boot, else about once a minute.
func (a *agent) due(s api.NodeStatus) bool {
	since := time.Since(a.sent)
	changed := s.Reads != a.last.Reads || !maps.Equal(s.Bytes, a.last.Bytes)
	switch {
	case a.sent.IsZero(), since >= statusEvery:
		return true
	case s.Rejected != a.last.Rejected, (s.Systemd == nil) != (a.last.Systemd == nil):
		return true
	}
	return changed && (a.last.Systemd == nil || since >= statusEvery/4)
}

// incidents turns what went wrong below the root into facts on the timeline.
func (a *agent) incidents(b BlockStatus) {
	for _, i := range b.Incidents {
		if i.Sequence <= a.progress.Incidents {
			continue
		}
		message := string(i.Kind) + ": " + i.Message
		if i.Source != "" {
			message = fmt.Sprintf("%s (%s)", message, i.Source)
		}
		a.info(message, incidentHint(i.Kind))
		a.progress.Incidents = i.Sequence
		a.keepProgress()
	}
}

func incidentHint(k IncidentKind) string {
	switch k {
	case WrongBytes:
		return "run `pando image check` on the server; it finds and names objects that are damaged"
	case Missing:
		return "the version is not whole on that server: build or copy it again"
	case BrokenImage:
		return "build the image again"
	}
	return ""
}

// upperSpace is the overlay's writable layer, which statfs of an overlay shows.
func upperSpace(root string) (used, total int64) {
	var st unix.Statfs_t
	if unix.Statfs(root, &st) != nil {
		return 0, 0
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, int64(st.Blocks) * st.Bsize
}
