package registry

import (
	"fmt"
	"slices"
	"time"

	"pando/internal/fleet"
)

// Secret is a secret as it is stored: the caller has sealed its value.
type Secret struct {
	fleet.Secret
	Sealed []byte
}

const secretColumns = `SELECT name, sealed, changed FROM secrets`

// Secrets returns all secrets by name.
func (t *Tx) Secrets() ([]Secret, error) {
	all, err := list(t, scanSecret, secretColumns+` ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	for i := range all {
		if err := t.secretScopes(&all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Secret returns one secret, or ErrNotFound.
func (t *Tx) Secret(name string) (Secret, error) {
	s, err := one(t.row(secretColumns+` WHERE name = ?`, name), scanSecret, "secret", name)
	if err != nil {
		return s, err
	}
	return s, t.secretScopes(&s)
}

func (t *Tx) secretScopes(s *Secret) error {
	scopes, err := list(t, func(row scanner) (fleet.Scope, error) {
		var text string
		if err := row.Scan(&text); err != nil {
			return fleet.Scope{}, err
		}
		return fleet.ParseScope(text)
	}, `SELECT scope FROM secret_scopes WHERE secret = ?`, s.Name)
	if err != nil {
		return fmt.Errorf("read scopes of secret %s: %w", s.Name, err)
	}
	slices.SortFunc(scopes, fleet.Scope.Compare)
	s.For = scopes
	return nil
}

// PutSecret records a secret and replaces one with the same name. It returns ErrNotFound if a group, class or node in
// its scopes does not exist.
func (t *Tx) PutSecret(s Secret) error {
	if err := s.Validate(); err != nil {
		return err
	}
	_, err := t.exec(`INSERT INTO secrets (name, sealed, changed) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, changed = excluded.changed`, s.Name, s.Sealed, stamp(s.Changed))
	if err == nil {
		_, err = t.exec(`DELETE FROM secret_scopes WHERE secret = ?`, s.Name)
	}
	if err != nil {
		return fmt.Errorf("write secret %s: %w", s.Name, err)
	}
	for _, f := range s.For {
		if err := t.HasScope(f); err != nil {
			return err
		}
		if _, err := t.exec(`INSERT OR REPLACE INTO secret_scopes (secret, scope) VALUES (?, ?)`, s.Name,
			f.String()); err != nil {
			return fmt.Errorf("write secret %s: %w", s.Name, err)
		}
	}
	return nil
}

// DeleteSecret removes a secret, or returns ErrNotFound.
func (t *Tx) DeleteSecret(name string) error {
	if _, err := t.exec(`DELETE FROM secret_scopes WHERE secret = ?`, name); err != nil {
		return fmt.Errorf("delete secret %s: %w", name, err)
	}
	n, err := t.exec(`DELETE FROM secrets WHERE name = ?`, name)
	if err != nil {
		return fmt.Errorf("delete secret %s: %w", name, err)
	}
	if n == 0 {
		return notFound("secret", name)
	}
	return nil
}

// ApproveBoot records that an operator allows a boot to get secrets.
func (t *Tx) ApproveBoot(id fleet.BootID, at time.Time) error {
	n, err := t.exec(`UPDATE boots SET approved = ? WHERE id = ?`, stamp(at), string(id))
	if err != nil {
		return fmt.Errorf("approve boot %s: %w", id, err)
	}
	if n == 0 {
		return notFound("boot", string(id))
	}
	return nil
}

func scanSecret(row scanner) (Secret, error) {
	var s Secret
	var changed int64
	err := row.Scan(&s.Name, &s.Sealed, &changed)
	s.Changed = unstamp(changed)
	return s, err
}
