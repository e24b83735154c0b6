package registry

import (
	"errors"
	"fmt"

	"pando/internal/fleet"
)

const groupColumns = `SELECT name, image, kernel_args, settings FROM groups`

// Groups returns all groups by name. The default group is always among them.
func (t *Tx) Groups() ([]fleet.Group, error) {
	clause, arg := t.limit("name")
	g, err := list(t, scanGroup, groupColumns+` WHERE true`+clause+` ORDER BY name`, arg)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	return g, nil
}

// Group returns one group, or ErrNotFound.
func (t *Tx) Group(name string) (fleet.Group, error) {
	if !t.sees(name) {
		return fleet.Group{}, notFound("group", name)
	}
	return one(t.row(groupColumns+` WHERE name = ?`, name), scanGroup, "group", name)
}

// CreateGroup adds a group, or returns ErrExists.
func (t *Tx) CreateGroup(g fleet.Group) error {
	if !t.sees(g.Name) {
		return beyond("group " + g.Name)
	}
	if _, err := t.Group(g.Name); !errors.Is(err, ErrNotFound) {
		return taken(err, "group", g.Name)
	}
	return t.writeGroup(g, `INSERT INTO groups (image, kernel_args, settings, name) VALUES (?, ?, ?, ?)`)
}

// PutGroup replaces the group with this name. It returns ErrNotFound if there is none, and ErrInUse if its image
// changes while a rollout decides about it. Groups cannot be renamed.
func (t *Tx) PutGroup(g fleet.Group) error {
	was, err := t.Group(g.Name)
	if err != nil {
		return err
	}
	if was.Image != g.Image {
		if err := t.noRollout(g.Name); err != nil {
			return err
		}
	}
	return t.writeGroup(g, `UPDATE groups SET image = ?, kernel_args = ?, settings = ? WHERE name = ?`)
}

func (t *Tx) writeGroup(g fleet.Group, query string) error {
	g.Settings = g.Settings.Normal()
	if err := errors.Join(g.Validate(), named("group "+g.Name, g.Image, g.Follow)); err != nil {
		return err
	}
	_, err := t.exec(
		query,
		string(g.Image),
		pack(g.KernelArgs, len(g.KernelArgs) == 0),
		pack(g.Settings, g.Settings == (fleet.Settings{})),
		g.Name,
	)
	if err != nil {
		return fmt.Errorf("write group %s: %w", g.Name, err)
	}
	return nil
}

// DeleteGroup removes a group. It returns ErrNotFound if there is none, and ErrInUse while it has members or is the
// default group.
func (t *Tx) DeleteGroup(name string) error {
	if _, err := t.Group(name); err != nil {
		return err
	}
	if name == fleet.DefaultGroup {
		return fmt.Errorf("group %q, which new nodes join: %w", name, ErrInUse)
	}
	if err := t.noRollout(name); err != nil {
		return err
	}
	var members int
	if err := t.row(`SELECT count(*) FROM nodes WHERE grp = ?`, name).Scan(&members); err != nil {
		return fmt.Errorf("delete group %s: %w", name, err)
	}
	if members > 0 {
		return fmt.Errorf("group %q has %d nodes: %w", name, members, ErrInUse)
	}
	if err := t.forgetPower(PowerOfGroup, name); err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM groups WHERE name = ?`, name); err != nil {
		return fmt.Errorf("delete group %s: %w", name, err)
	}
	return t.endScope(fleet.ForGroup, name)
}

func scanGroup(s scanner) (fleet.Group, error) {
	var g fleet.Group
	var args, settings string
	if err := s.Scan(&g.Name, &g.Image, &args, &settings); err != nil {
		return g, err
	}
	g.Follow = g.Image.IsTag()
	return g, errors.Join(unpack(args, &g.KernelArgs), unpack(settings, &g.Settings))
}
