package nodeapi

import (
	"context"
	"fmt"
	"sync"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/trace"
)

// levels holds how full the write layer of each node was when that was last reported, in memory. After a restart the
// server reports it again.
type levels struct {
	mu sync.Mutex
	of map[fleet.MAC]level
}

type level struct {
	boot fleet.BootID
	full fleet.Fullness
}

// rise reports whether a write layer has become fuller, to a level above fleet.Roomy.
func (l *levels) rise(b registry.Boot, full fleet.Fullness) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[fleet.MAC]level{}
	}
	was := l.of[b.MAC]
	l.of[b.MAC] = level{b.ID, full}
	return full > fleet.Roomy && (was.boot != b.ID || full > was.full)
}

// warnOfFullness adds an event to the timeline when a node's write layer becomes almost full or full.
func (s *Service) warnOfFullness(ctx context.Context, b registry.Boot, st api.NodeStatus) error {
	if !s.levels.rise(b, st.Fullness()) {
		return nil
	}
	e := trace.Event{
		Time:    s.now(),
		Boot:    b.ID,
		Node:    b.Node,
		MAC:     b.MAC,
		Stage:   trace.Booted,
		Kind:    trace.Info,
		Message: fullnessText(st),
		Hint: "remove what is not needed, or reboot, which empties it unless it is kept; a larger " +
			"--write-limit counts from the next boot; --persist keeps directories elsewhere",
	}
	if st.Fullness() == fleet.Full {
		e.Message += ": writes fail soon"
	}
	_, err := s.registry.Append(ctx, e)
	return err
}

// fullnessText says how full a write layer is: in bytes or in files, whichever is fuller.
func fullnessText(st api.NodeStatus) string {
	if fleet.FullnessOf(st.UpperUsed, st.UpperTotal) >= fleet.FullnessOf(st.FilesUsed, st.FilesTotal) {
		return fmt.Sprintf(
			"the write layer is %d %% full, %d of %d MB",
			st.UpperUsed*100/st.UpperTotal,
			st.UpperUsed/1e6,
			st.UpperTotal/1e6,
		)
	}
	return fmt.Sprintf("the write layer has %d of the %d files that it can have", st.FilesUsed, st.FilesTotal)
}
