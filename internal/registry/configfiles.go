package registry

import (
	"fmt"
	"slices"

	"pando/internal/fleet"
)

const configColumns = `SELECT scope, path, body FROM config_files`

// ConfigFiles returns all config files by path, and those of one path by precedence, the one that applies last.
func (t *Tx) ConfigFiles() ([]fleet.ConfigFile, error) {
	f, err := list(t, scanConfigFile, configColumns)
	if err != nil {
		return nil, fmt.Errorf("list config files: %w", err)
	}
	if t.Limited() {
		f = slices.DeleteFunc(f, func(c fleet.ConfigFile) bool { return !t.seesScope(c.For) })
	}
	slices.SortFunc(f, fleet.ConfigFile.Compare)
	return f, nil
}

// ConfigFile returns one config file, or ErrNotFound.
func (t *Tx) ConfigFile(scope fleet.Scope, path string) (fleet.ConfigFile, error) {
	if t.Limited() && !t.seesScope(scope) {
		return fleet.ConfigFile{}, notFound("config file", path+" of "+scope.String())
	}
	return one(
		t.row(configColumns+` WHERE scope = ? AND path = ?`, scope.String(), path), scanConfigFile, "config file",
		path+" of "+scope.String(),
	)
}

// PutConfigFile records a config file and replaces one with the same scope and path. It returns ErrNotFound if the
// group, class or node does not exist.
func (t *Tx) PutConfigFile(f fleet.ConfigFile) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if err := t.mayChange(f.For); err != nil {
		return err
	}
	_, err := t.exec(
		`INSERT OR REPLACE INTO config_files (scope, path, body) VALUES (?, ?, ?)`, f.For.String(), f.Path,
		pack(f, false),
	)
	if err != nil {
		return fmt.Errorf("write config file %s of %s: %w", f.Path, f.For, err)
	}
	return nil
}

// DeleteConfigFile removes a config file, or returns ErrNotFound.
func (t *Tx) DeleteConfigFile(scope fleet.Scope, path string) error {
	if err := t.mayChange(scope); err != nil {
		return err
	}
	n, err := t.exec(`DELETE FROM config_files WHERE scope = ? AND path = ?`, scope.String(), path)
	if err != nil {
		return fmt.Errorf("delete config file %s of %s: %w", path, scope, err)
	}
	if n == 0 {
		return notFound("config file", path+" of "+scope.String())
	}
	return nil
}

// HasScope returns ErrNotFound if a scope names a group, class or node that does not exist.
func (t *Tx) HasScope(s fleet.Scope) error {
	var err error
	switch s.Kind {
	case fleet.ForAll:
	case fleet.ForGroup:
		_, err = t.Group(s.Name)
	case fleet.ForClass:
		_, err = t.Class(s.Name)
	case fleet.ForNode:
		_, err = t.Node(s.Name)
	}
	return err
}

// endScope deletes what applied to a group, class or node that was deleted.
func (t *Tx) endScope(kind fleet.ScopeKind, name string) error {
	s := fleet.Scope{Kind: kind, Name: name}.String()
	for _, table := range []string{"config_files", "secret_scopes"} {
		if _, err := t.exec(`DELETE FROM `+table+` WHERE scope = ?`, s); err != nil {
			return fmt.Errorf("delete config files and secret scopes of %s: %w", s, err)
		}
	}
	return nil
}

// moveScope changes the scope of a renamed node.
func (t *Tx) moveScope(old, name string) error {
	was, is := fleet.Scope{
		Kind: fleet.ForNode, Name: old,
	}.String(), fleet.Scope{
		Kind: fleet.ForNode, Name: name,
	}.String()
	for _, table := range []string{"config_files", "secret_scopes"} {
		if _, err := t.exec(`UPDATE OR REPLACE `+table+` SET scope = ? WHERE scope = ?`, is, was); err != nil {
			return fmt.Errorf("rename node %s: %w", old, err)
		}
	}
	return nil
}

// mergeScope gives what applies to one node to another, unless the other has its own.
func (t *Tx) mergeScope(from, to string) error {
	was := fleet.Scope{Kind: fleet.ForNode, Name: from}.String()
	is := fleet.Scope{Kind: fleet.ForNode, Name: to}.String()
	for _, table := range []string{"config_files", "secret_scopes"} {
		if _, err := t.exec(`UPDATE OR IGNORE `+table+` SET scope = ? WHERE scope = ?`, is, was); err != nil {
			return fmt.Errorf("merge node %s into %s: %w", from, to, err)
		}
	}
	return nil
}

func scanConfigFile(s scanner) (fleet.ConfigFile, error) {
	var f fleet.ConfigFile
	var scope, path, body string
	if err := s.Scan(&scope, &path, &body); err != nil {
		return f, err
	}
	if err := unpack(body, &f); err != nil {
		return f, err
	}
	f.Path = path
	var err error
	f.For, err = fleet.ParseScope(scope)
	return f, err
}
