package dashboard

import (
	"context"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// keptRow is a path that a node keeps across boots.
type keptRow struct {
	Path  string
	On    string // where it is kept, as in the setting
	Bytes int64  // bytes on the disk; -1: not known yet
	Since time.Time
	Told  time.Time
	Note  string
}

// keptBy returns what a node keeps, and the pending orders about it.
func (d *Dashboard) keptBy(ctx context.Context, n api.Node) (rows []keptRow, to []string, err error) {
	if n.State == fleet.Discovered {
		return nil, nil, nil
	}
	list, err := d.API.State(ctx, n.Name)
	for _, s := range list {
		if s.Node == n.Name {
			rows, to = keptRows(s), keptOrders(s)
		}
	}
	return rows, to, err
}

// keptRows returns the paths that the node reported, then the paths that it will keep from its next boot on.
func keptRows(s api.StateOf) (rows []keptRow) {
	told := map[string]bool{}
	for _, p := range s.Places {
		for _, k := range p.Paths {
			r := keptRow{Path: k.Path, On: p.On, Bytes: k.Bytes, Since: k.Since, Told: p.Told}
			switch {
			case p.Place != s.Place:
				r.Note = "not kept there any more"
			case !slices.Contains(s.Persist, k.Path) && !slices.Contains(s.Persist, fleet.FilePrefix+k.Path):
				r.Note = "not declared any more"
			}
			told[k.Path] = told[k.Path] || p.Place == s.Place
			rows = append(rows, r)
		}
	}
	for _, x := range s.Persist {
		if path := fleet.ParsePersist(x).Path; !told[path] {
			rows = append(rows, keptRow{Path: path, On: s.Kept, Bytes: -1, Note: "from its next boot on"})
		}
	}
	return rows
}

func keptOrders(s api.StateOf) (lines []string) {
	for _, o := range s.Orders {
		if o.Kind != fleet.RemoveState {
			lines = append(lines, "at its next boot: "+o.String())
		}
	}
	if s.Last != nil && s.Last.Error != "" {
		lines = append(lines, s.Last.Done())
	}
	return lines
}
