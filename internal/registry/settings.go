package registry

import (
	"database/sql"
	"errors"
	"fmt"

	"pando/internal/fleet"
)

// Keys of the settings.
const (
	settingAdoption = "adoption"
	settingNaming   = "naming"
)

// Policy says how the site treats unknown MACs.
type Policy struct {
	Adoption fleet.AdoptionPolicy
	Naming   string // rule for the names of nodes that are adopted without one
}

// DefaultPolicy is the policy of a new registry.
func DefaultPolicy() Policy { return Policy{Adoption: fleet.Open, Naming: fleet.DefaultNaming} }

// Policy returns the adoption policy.
func (t *Tx) Policy() (Policy, error) {
	p := DefaultPolicy()
	adoption, err := t.setting(settingAdoption, string(p.Adoption))
	if err != nil {
		return p, err
	}
	p.Adoption = fleet.AdoptionPolicy(adoption)
	p.Naming, err = t.setting(settingNaming, p.Naming)
	return p, err
}

// PutPolicy sets the adoption policy. Nodes that are already adopted stay adopted.
func (t *Tx) PutPolicy(p Policy) error {
	if p.Adoption != fleet.Open && p.Adoption != fleet.Approve {
		return fmt.Errorf("adoption policy %q: use %s or %s", p.Adoption, fleet.Open, fleet.Approve)
	}
	if _, err := fleet.ParseNaming(p.Naming); err != nil {
		return err
	}
	return errors.Join(t.putSetting(settingAdoption, string(p.Adoption)), t.putSetting(settingNaming, p.Naming))
}

func (t *Tx) setting(key, otherwise string) (string, error) {
	var v string
	err := t.row(`SELECT value FROM settings WHERE key = ?`, key).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return otherwise, nil
	}
	if err != nil {
		return "", fmt.Errorf("read setting %s: %w", key, err)
	}
	return v, nil
}

func (t *Tx) putSetting(key, value string) error {
	_, err := t.exec(
		`INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
		key, value,
	)
	if err != nil {
		return fmt.Errorf("write setting %s: %w", key, err)
	}
	return nil
}
