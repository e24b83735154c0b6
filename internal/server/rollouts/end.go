package rollouts

import (
	"fmt"
	"slices"
	"time"

	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/registry"
	"pando/internal/rollout"
)

// endRollout sets the group to the version that the rollout ended with, and says what else changes. After a rollback it
// also moves back the tags that were moved to the abandoned version.
func endRollout(tx *registry.Tx, r fleet.Rollout, is fleet.Ref, now time.Time) (notes []rollout.Note, err error) {
	if is == r.From {
		if notes, err = tagsBack(tx, r, now); err != nil {
			return nil, err
		}
	}
	g, err := tx.Group(r.Group)
	if fleetview.Absent(err) {
		return notes, nil // the group was deleted
	}
	if err != nil {
		return nil, err
	}
	_, _, want, err := is.Split()
	if err != nil {
		return nil, err
	}
	if has, err := tx.Resolve(g.Image); err == nil && has == want {
		return notes, nil
	}
	if g.Follow {
		notes = append(notes, rollout.Note{Message: fmt.Sprintf("group %s follows %s no more: it stays at %s",
			g.Name, g.Image, is.Short())})
	}
	g.Image, g.Follow = is, false
	return notes, tx.PutGroup(g)
}

// tagsBack moves tags from the abandoned version back to the version before. A tag that never named another version
// stays.
func tagsBack(tx *registry.Tx, r fleet.Rollout, now time.Time) (notes []rollout.Note, err error) {
	name, _, to, err := r.To.Split()
	if err != nil {
		return nil, err
	}
	of, _, from, err := r.From.Split()
	if err != nil || of != name {
		return nil, err // the rollout came from another image
	}
	tags, err := tx.Tags(name)
	if err != nil {
		return nil, err
	}
	moves, err := tx.TagMoves(name) // newest first
	if err != nil {
		return nil, err
	}
	for _, t := range tags {
		last := slices.IndexFunc(moves, func(m registry.TagMove) bool { return m.Tag == t.Tag })
		if t.Version != to || last < 0 || moves[last].Was == "" {
			continue
		}
		t.Version = from
		move := registry.TagMove{Image: name, Tag: t.Tag, Version: from, Was: to, At: now, Who: "rollout " + r.ID}
		if _, err := tx.PutTag(t); err != nil {
			return nil, err
		}
		if err := tx.AddTagMove(move); err != nil {
			return nil, err
		}
		notes = append(notes, rollout.Note{Message: fmt.Sprintf("tag %s:%s is back at %s", name, t.Tag, from.Short())})
	}
	return notes, nil
}
