package nodeconfig

import (
	"pando/internal/fleet"
	"pando/internal/registry"
)

// Outdated compares the config files of a running node with those that it would get now; see Changes.
func (c *Renderer) Outdated(tx *registry.Tx, n fleet.Node, b registry.Boot) (old, gone []string, err error) {
	if b.Session.IsZero() || b.Config == nil {
		return nil, nil, nil
	}
	now, err := Read(tx, n, b)
	if err != nil {
		return nil, nil, err
	}
	old, gone = Changes(b.Config, c.Digests(c.Render(now, c.Secrets(now)).All()))
	return old, gone, nil
}
