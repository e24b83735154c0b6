package server

import (
	"pando/internal/fleet"
	"pando/internal/registry"
)

// latestBoot is the latest boot of a node, the zero Boot when there is none.
func latestBoot(tx *registry.Tx, n fleet.Node) (registry.Boot, error) {
	boots, err := tx.Boots(registry.BootFilter{Node: n.Name, Limit: 1})
	if err != nil || len(boots) == 0 {
		return registry.Boot{}, err
	}
	return boots[0], nil
}
