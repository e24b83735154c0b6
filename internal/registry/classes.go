package registry

import (
	"encoding/json"
	"errors"
	"fmt"

	"pando/internal/fleet"
)

const classColumns = `SELECT name, body FROM classes`

// Classes returns all hardware classes by name.
func (t *Tx) Classes() ([]fleet.Class, error) {
	c, err := list(t, scanClass, classColumns+` ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("list classes: %w", err)
	}
	return c, nil
}

// Class returns one hardware class, or ErrNotFound.
func (t *Tx) Class(name string) (fleet.Class, error) {
	return one(t.row(classColumns+` WHERE name = ?`, name), scanClass, "class", name)
}

// CreateClass adds a hardware class, or returns ErrExists.
func (t *Tx) CreateClass(c fleet.Class) error {
	if _, err := t.Class(c.Name); !errors.Is(err, ErrNotFound) {
		return taken(err, "class", c.Name)
	}
	return t.writeClass(c, `INSERT INTO classes (body, name) VALUES (?, ?)`)
}

// PutClass replaces the hardware class of this name, or returns ErrNotFound. Classes are not renamed.
func (t *Tx) PutClass(c fleet.Class) error {
	if _, err := t.Class(c.Name); err != nil {
		return err
	}
	return t.writeClass(c, `UPDATE classes SET body = ? WHERE name = ?`)
}

func (t *Tx) writeClass(c fleet.Class, query string) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if _, err := t.exec(query, pack(c, false), c.Name); err != nil {
		return fmt.Errorf("write class %s: %w", c.Name, err)
	}
	return nil
}

// DeleteClass removes a hardware class, or returns ErrNotFound.
func (t *Tx) DeleteClass(name string) error {
	n, err := t.exec(`DELETE FROM classes WHERE name = ?`, name)
	if err != nil {
		return fmt.Errorf("delete class %s: %w", name, err)
	}
	if n == 0 {
		return notFound("class", name)
	}
	return t.endScope(fleet.ForClass, name)
}

func scanClass(s scanner) (fleet.Class, error) {
	var c fleet.Class
	var name, body string
	if err := s.Scan(&name, &body); err != nil {
		return c, err
	}
	err := unpack(body, &c)
	c.Name = name
	return c, err
}

// Hardware returns the last hardware report of each of these nodes, by name. If none or many are named, it returns
// those of all nodes. Nodes without a report are missing.
func (t *Tx) Hardware(nodes ...string) (map[string]fleet.Hardware, error) {
	out := map[string]fleet.Hardware{}
	if len(nodes) == 0 || len(nodes) > few {
		return out, t.readHardware(out, `node != ''`)
	}
	for _, n := range nodes {
		if err := t.readHardware(out, `node != '' AND node = ?`, n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readHardware adds the reports of the nodes that match a condition.
func (t *Tx) readHardware(out map[string]fleet.Hardware, where string, args ...any) error {
	type report struct{ node, body string }
	reports, err := list(t, func(s scanner) (r report, err error) {
		err = s.Scan(&r.node, &r.body)
		return r, err
	}, `SELECT node, hardware FROM boots WHERE id IN (SELECT id FROM (SELECT id, max(started) FROM boots
		WHERE hardware != '' AND `+where+` GROUP BY node))`, args...)
	if err != nil {
		return fmt.Errorf("read hardware of nodes: %w", err)
	}
	for _, r := range reports {
		var h fleet.Hardware
		if err := json.Unmarshal([]byte(r.body), &h); err != nil {
			return fmt.Errorf("read hardware of node %s: %w", r.node, err)
		}
		out[r.node] = h
	}
	return nil
}
