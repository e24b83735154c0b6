package registry

import (
	"errors"
	"fmt"
	"time"

	"pando/internal/fleet"
)

const recordColumns = `SELECT node, dir, deleted, body FROM state_records`

func scanRecord(s scanner) (r fleet.StateRecord, err error) {
	var node, dir, body string
	var deleted int64
	if err := s.Scan(&node, &dir, &deleted, &body); err != nil {
		return r, err
	}
	err = unpack(body, &r)
	r.Node, r.Dir, r.Deleted = node, dir, unstamp(deleted)
	return r, err
}

// StateRecords returns the records of all nodes' states, by name. Callers that are limited to some groups do not get
// those of deleted nodes.
func (t *Tx) StateRecords() (map[string]fleet.StateRecord, error) {
	clause, arg := t.limitNodes("node")
	all, err := list(t, scanRecord, recordColumns+` WHERE true`+clause, arg)
	if err != nil {
		return nil, fmt.Errorf("list state records: %w", err)
	}
	out := make(map[string]fleet.StateRecord, len(all))
	for _, r := range all {
		out[r.Node] = r
	}
	return out, nil
}

// DeletedStates returns the records of deleted nodes' states.
func (t *Tx) DeletedStates() ([]fleet.StateRecord, error) {
	all, err := list(t, scanRecord, recordColumns+` WHERE deleted != 0 ORDER BY node`)
	if err != nil {
		return nil, fmt.Errorf("list state records of deleted nodes: %w", err)
	}
	return all, nil
}

// StateRecord returns the record of a node's state, also of a deleted node, or ErrNotFound.
func (t *Tx) StateRecord(node string) (fleet.StateRecord, error) {
	return one(t.row(recordColumns+` WHERE node = ?`, node), scanRecord, "state of", node)
}

// PutStateRecord replaces the record of a node's state.
func (t *Tx) PutStateRecord(r fleet.StateRecord) error {
	_, err := t.exec(
		`INSERT OR REPLACE INTO state_records (node, dir, deleted, body) VALUES (?, ?, ?, ?)`, r.Node, r.Dir,
		stamp(r.Deleted), pack(r, false),
	)
	if err != nil {
		return fmt.Errorf("write state record of %s: %w", r.Node, err)
	}
	return nil
}

// GiveStateDir returns the record of a node's state with the name of its directory. A new directory gets the node's
// name. While the state of an earlier node with that name exists, it gets a number, so that the node does not inherit
// that state.
func (t *Tx) GiveStateDir(node string) (fleet.StateRecord, error) {
	r, err := t.StateRecord(node)
	if err != nil && !errors.Is(err, ErrNotFound) || r.Dir != "" {
		return r, err
	}
	r.Node = node
	for n := 1; ; n++ {
		if r.Dir = node; n > 1 {
			r.Dir = fmt.Sprintf("%s+%d", node, n)
		}
		var takers int
		if err := t.row(`SELECT count(*) FROM state_records WHERE dir = ?`, r.Dir).Scan(&takers); err != nil {
			return r, fmt.Errorf("look for a directory for the state of %s: %w", node, err)
		}
		if takers == 0 {
			return r, t.PutStateRecord(r)
		}
	}
}

// RetireState keeps the state record of a deleted node under a name that no node can have.
func (t *Tx) RetireState(node string, at time.Time) error {
	r, err := t.StateRecord(node)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.ForgetState(node); err != nil {
		return err
	}
	r.Node, r.Deleted, r.Orders = DeletedName(node, at), at, nil
	return t.PutStateRecord(r)
}

// DeletedName returns the name for the state of a deleted node.
func DeletedName(node string, at time.Time) string {
	return fmt.Sprintf("%s.deleted-%d", node, at.Unix())
}

// ForgetState deletes the record of a node's state. The state itself stays.
func (t *Tx) ForgetState(node string) error {
	if _, err := t.exec(`DELETE FROM state_records WHERE node = ?`, node); err != nil {
		return fmt.Errorf("delete state record of %s: %w", node, err)
	}
	return nil
}

func (t *Tx) renameState(was, is string) error {
	if _, err := t.exec(`UPDATE OR REPLACE state_records SET node = ? WHERE node = ?`, is, was); err != nil {
		return fmt.Errorf("rename node %s: %w", was, err)
	}
	return nil
}
