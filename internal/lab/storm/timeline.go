package storm

import (
	"context"
	"fmt"

	"pando/internal/trace"
)

// timelines fetches the timeline of each node's boot from the server. It does not look at the daemons' own records,
// because people see only the timeline.
func (s *Storm) timelines(ctx context.Context, nodes []*node, r *stormRun) error {
	r.Tell = true
	for i, n := range nodes {
		if n.bootID == "" {
			return fmt.Errorf("%s: the server does not know its boot", shortName(i))
		}
		b, err := s.Site.API.Boot(ctx, n.bootID)
		if err != nil {
			return fmt.Errorf("timeline of %s: %w", shortName(i), err)
		}
		told := map[string]int{}
		for _, e := range b.Events {
			if kind := e.Attrs[trace.AttrIncident]; kind != "" {
				told[kind]++
			}
		}
		r.Each[i].Timeline = told
		if !r.Each[i].Killed && !b.State.Reached() {
			return fmt.Errorf("%s has booted, and its timeline says that it is %s", shortName(i), b.State)
		}
	}
	return nil
}
