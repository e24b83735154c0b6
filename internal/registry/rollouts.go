package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"pando/internal/fleet"
)

// A rollout is one row, with a further row for each of its nodes. A step of a rollout writes only the rows that
// changed, and a boot finds its target by the node's name.
const (
	rolloutColumns     = `SELECT body FROM rollouts`
	rolloutNodeColumns = `SELECT node, target, body FROM rollout_nodes`
)

// RolloutFilter selects rollouts. The zero filter selects all.
type RolloutFilter struct {
	Group string // of this group
	Live  bool   // only rollouts that decide what nodes boot
}

// Rollouts returns rollouts, newest first, without their nodes.
func (t *Tx) Rollouts(f RolloutFilter) ([]fleet.Rollout, error) {
	clause, arg := t.limit("grp")
	r, err := list(
		t, scanRollout,
		rolloutColumns+` WHERE ? IN ('', grp) AND live >= ?`+clause+` ORDER BY created DESC, id DESC`, f.Group,
		f.Live, arg,
	)
	if err != nil {
		return nil, fmt.Errorf("list rollouts: %w", err)
	}
	return r, nil
}

// Rollout returns one rollout with its nodes, or ErrNotFound.
func (t *Tx) Rollout(id string) (fleet.Rollout, error) {
	r, err := t.rollout(id)
	if err != nil {
		return r, err
	}
	r.Nodes, err = list(t, scanRolloutNode, rolloutNodeColumns+` WHERE rollout = ? ORDER BY place`, id)
	if err != nil {
		return r, fmt.Errorf("read nodes of rollout %s: %w", id, err)
	}
	return r, nil
}

// rollout returns a rollout without its nodes.
func (t *Tx) rollout(id string) (fleet.Rollout, error) {
	clause, arg := t.limit("grp")
	return one(t.row(rolloutColumns+` WHERE id = ?`+clause, id, arg), scanRollout, "rollout", id)
}

// RolloutPhases counts the nodes of a rollout by phase, without decoding each of them.
func (t *Tx) RolloutPhases(id string) (map[fleet.RolloutPhase]int, error) {
	type counted struct {
		phase fleet.RolloutPhase
		n     int
	}
	all, err := list(t, func(s scanner) (c counted, err error) {
		err = s.Scan(&c.phase, &c.n)
		return c, err
	}, `SELECT body ->> 'phase', count(*) FROM rollout_nodes WHERE rollout = ? GROUP BY 1`, id)
	if err != nil {
		return nil, fmt.Errorf("count nodes of rollout %s: %w", id, err)
	}
	out := make(map[fleet.RolloutPhase]int, len(all))
	for _, c := range all {
		out[c.phase] = c.n
	}
	return out, nil
}

// CreateRollout records a new rollout and gives it an ID. It returns ErrInUse while the group has a live one.
func (t *Tx) CreateRollout(r fleet.Rollout) (fleet.Rollout, error) {
	if !t.sees(r.Group) {
		return r, beyond("group " + r.Group)
	}
	if err := t.noRollout(r.Group); err != nil {
		return r, err
	}
	// A number is used only once, even after its rollout was deleted.
	var n int
	if err := t.row(`SELECT coalesce(max(number), 0) FROM rollout_numbers WHERE grp = ?`,
		r.Group).Scan(&n); err != nil {
		return r, fmt.Errorf("number rollout of group %s: %w", r.Group, err)
	}
	n++
	r.ID = fmt.Sprintf("%s-%d", r.Group, n)
	_, err := t.exec(
		`INSERT INTO rollout_numbers (grp, number) VALUES (?, ?) ON CONFLICT (grp) DO UPDATE SET number = excluded.number`,
		r.Group, n,
	)
	if err == nil {
		_, err = t.exec(
			`INSERT INTO rollouts (id, grp, live, created, body) VALUES (?, ?, 1, ?, '')`, r.ID, r.Group,
			stamp(r.Created),
		)
	}
	if err != nil {
		return r, fmt.Errorf("create rollout %s: %w", r.ID, err)
	}
	return r, t.PutRollout(r, nil)
}

// noRollout returns ErrInUse if a group has a live rollout.
func (t *Tx) noRollout(group string) error {
	live, err := t.Rollouts(RolloutFilter{Group: group, Live: true})
	if err == nil && len(live) > 0 {
		err = fmt.Errorf("group %q has rollout %s, which is %s: %w", group, live[0].ID, live[0].State, ErrInUse)
	}
	return err
}

// PutRollout replaces a rollout and those of its nodes that differ from was. It returns ErrNotFound if there is none.
func (t *Tx) PutRollout(r fleet.Rollout, was []fleet.RolloutNode) error {
	if !t.sees(r.Group) {
		return notFound("rollout", r.ID)
	}
	nodes := r.Nodes
	r.Nodes = nil
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode rollout %s: %w", r.ID, err)
	}
	n, err := t.exec(`UPDATE rollouts SET live = ?, body = ? WHERE id = ?`, r.State.Live(), string(body), r.ID)
	if err != nil {
		return fmt.Errorf("write rollout %s: %w", r.ID, err)
	}
	if n == 0 {
		return notFound("rollout", r.ID)
	}
	for i, n := range nodes {
		if i < len(was) && sameRolloutNode(n, was[i]) {
			continue
		}
		if err := t.putRolloutNode(r.ID, i, n); err != nil {
			return fmt.Errorf("write rollout %s: node %s: %w", r.ID, n.Node, err)
		}
	}
	return nil
}

func sameRolloutNode(a, b fleet.RolloutNode) bool {
	if !slices.Equal(a.Before, b.Before) {
		return false
	}
	a.Before, b.Before = nil, nil
	return fmt.Sprint(a) == fmt.Sprint(b)
}

func (t *Tx) putRolloutNode(id string, place int, n fleet.RolloutNode) error {
	target := n.Target
	if n.Phase == fleet.PhaseLeft {
		target = ""
	}
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO rollout_nodes (rollout, node, place, target, body) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (rollout, node) DO UPDATE SET place = excluded.place, target = excluded.target, body = excluded.body`,
		id, n.Node, place, string(target), string(body))
	return err
}

// DeleteRollout deletes a rollout. It returns ErrNotFound if there is none, and ErrInUse while it is live.
func (t *Tx) DeleteRollout(id string) error {
	r, err := t.rollout(id)
	if err != nil {
		return err
	}
	if r.State.Live() {
		return fmt.Errorf("rollout %s is %s: %w", id, r.State, ErrInUse)
	}
	for _, query := range []string{`DELETE FROM rollout_nodes WHERE rollout = ?`, `DELETE FROM rollouts WHERE id = ?`} {
		if _, err := t.exec(query, id); err != nil {
			return fmt.Errorf("delete rollout %s: %w", id, err)
		}
	}
	return nil
}

// Target is the image that a live rollout gives a node to boot.
type Target struct {
	Rollout string
	Image   fleet.Ref
}

// A node that left the group, or got its own version, has no target any more, even if its rollout has not noticed
// that yet.
const targetColumns = `SELECT n.node, r.id, n.target FROM rollout_nodes n JOIN rollouts r ON r.id = n.rollout
	JOIN nodes o ON o.name = n.node AND o.grp = r.grp AND o.version = '' WHERE r.live AND n.target != ''`

// Target returns the target of a node; the zero Target if no live rollout has one.
func (t *Tx) Target(node string) (Target, error) {
	found, err := one(t.row(targetColumns+` AND n.node = ?`, node), scanTarget, "target of node", node)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return found.Target, err
}

// Targets returns the targets of all nodes by their names.
func (t *Tx) Targets() (map[string]Target, error) {
	all, err := list(t, scanTarget, targetColumns)
	if err != nil {
		return nil, fmt.Errorf("list targets of rollouts: %w", err)
	}
	out := make(map[string]Target, len(all))
	for _, f := range all {
		out[f.node] = f.Target
	}
	return out, nil
}

type nodeTarget struct {
	node string
	Target
}

func scanTarget(s scanner) (nodeTarget, error) {
	var n nodeTarget
	err := s.Scan(&n.node, &n.Rollout, &n.Image)
	return n, err
}

func scanRollout(s scanner) (fleet.Rollout, error) {
	var r fleet.Rollout
	var body string
	if err := s.Scan(&body); err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(body), &r)
}

func scanRolloutNode(s scanner) (fleet.RolloutNode, error) {
	var n fleet.RolloutNode
	var body string
	var name string
	var target fleet.Ref
	if err := s.Scan(&name, &target, &body); err != nil {
		return n, err
	}
	err := json.Unmarshal([]byte(body), &n)
	n.Node = name // the node may have been renamed
	return n, err
}
