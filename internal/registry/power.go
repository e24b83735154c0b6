package registry

import (
	"errors"
	"fmt"
	"time"

	"pando/internal/fleet"
)

// PowerOwner says whether a power password belongs to a node or to a group.
type PowerOwner string

// A node's own password takes precedence over its group's.
const (
	PowerOfNode  PowerOwner = "node"
	PowerOfGroup PowerOwner = "group"
)

// PowerPassword returns the sealed password of a node or a group, or ErrNotFound.
func (t *Tx) PowerPassword(of PowerOwner, name string) ([]byte, error) {
	return one(
		t.row(`SELECT sealed FROM power_passwords WHERE kind = ? AND name = ?`, string(of), name),
		func(s scanner) (b []byte, err error) {
			err = s.Scan(&b)
			return b, err
		},
		"power password of "+string(of),
		name,
	)
}

// PutPowerPassword stores a sealed password; nil deletes it.
func (t *Tx) PutPowerPassword(of PowerOwner, name string, sealed []byte) error {
	if _, err := t.exec(`DELETE FROM power_passwords WHERE kind = ? AND name = ?`, string(of), name); err != nil {
		return fmt.Errorf("write power password of %s %s: %w", of, name, err)
	}
	if sealed == nil {
		return nil
	}
	_, err := t.exec(`INSERT INTO power_passwords (kind, name, sealed) VALUES (?, ?, ?)`, string(of), name, sealed)
	if err != nil {
		return fmt.Errorf("write power password of %s %s: %w", of, name, err)
	}
	return nil
}

// PowerWishes returns, by name, the last power order for each node, by an operator or a timetable.
func (t *Tx) PowerWishes() (map[string]fleet.PowerWish, error) {
	all, err := list(t, func(s scanner) (w fleet.PowerWish, err error) {
		var at int64
		err = s.Scan(&w.Node, &w.On, &at, &w.Who)
		w.At = unstamp(at)
		return w, err
	}, `SELECT node, is_on, at, who FROM power_wishes`)
	if err != nil {
		return nil, fmt.Errorf("read power orders: %w", err)
	}
	out := make(map[string]fleet.PowerWish, len(all))
	for _, w := range all {
		out[w.Node] = w
	}
	return out, nil
}

// PutPowerWish replaces the power order of a node.
func (t *Tx) PutPowerWish(w fleet.PowerWish) error {
	_, err := t.exec(
		`INSERT OR REPLACE INTO power_wishes (node, is_on, at, who) VALUES (?, ?, ?, ?)`, w.Node, w.On, stamp(w.At),
		w.Who,
	)
	if err != nil {
		return fmt.Errorf("record power order of node %s: %w", w.Node, err)
	}
	return nil
}

// PowerHours returns until when the switching times of each timetable were carried out.
func (t *Tx) PowerHours() (map[fleet.Hours]time.Time, error) {
	type mark struct {
		hours fleet.Hours
		upto  int64
	}
	all, err := list(t, func(s scanner) (m mark, err error) {
		err = s.Scan(&m.hours, &m.upto)
		return m, err
	}, `SELECT hours, upto FROM power_hours`)
	if err != nil {
		return nil, fmt.Errorf("read power hours: %w", err)
	}
	out := make(map[fleet.Hours]time.Time, len(all))
	for _, m := range all {
		out[m.hours] = unstamp(m.upto)
	}
	return out, nil
}

// PutPowerHours records until when timetables were carried out. It deletes the records of other timetables, which
// begin again when they are used again.
func (t *Tx) PutPowerHours(all []fleet.Hours, upto time.Time) error {
	_, err := t.exec(`DELETE FROM power_hours`)
	for _, h := range all {
		_, e := t.exec(`INSERT OR REPLACE INTO power_hours (hours, upto) VALUES (?, ?)`, string(h), stamp(upto))
		err = errors.Join(err, e)
	}
	if err != nil {
		return fmt.Errorf("record power hours: %w", err)
	}
	return nil
}

// settingAlive is the last time at which the server recorded that it runs.
const settingAlive = "alive"

// Alive returns the last time at which the server with this registry recorded that it runs, or zero.
func (t *Tx) Alive() (time.Time, error) {
	text, err := t.setting(settingAlive, "")
	if err != nil || text == "" {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, fmt.Errorf("read setting %s: %w", settingAlive, err)
	}
	return at, nil
}

// PutAlive records that the server runs.
func (t *Tx) PutAlive(at time.Time) error {
	return t.putSetting(settingAlive, at.UTC().Format(time.RFC3339Nano))
}

func (t *Tx) renamePower(was, is string) error {
	_, err1 := t.exec(
		`UPDATE OR REPLACE power_passwords SET name = ? WHERE kind = ? AND name = ?`, is, string(PowerOfNode), was,
	)
	_, err2 := t.exec(`UPDATE OR REPLACE power_wishes SET node = ? WHERE node = ?`, is, was)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("rename node %s: %w", was, err)
	}
	return nil
}

// mergePower gives the password of one node to another, unless the other has one.
func (t *Tx) mergePower(from, to string) error {
	_, err := t.exec(`UPDATE OR IGNORE power_passwords SET name = ? WHERE kind = ? AND name = ?`, to,
		string(PowerOfNode), from)
	if err != nil {
		return fmt.Errorf("merge node %s into %s: %w", from, to, err)
	}
	return nil
}

// forgetPower deletes power password and order, so that a later owner of the name does not get them.
func (t *Tx) forgetPower(of PowerOwner, name string) error {
	err := t.PutPowerPassword(of, name, nil)
	if of == PowerOfNode {
		_, e := t.exec(`DELETE FROM power_wishes WHERE node = ?`, name)
		err = errors.Join(err, e)
	}
	return err
}
