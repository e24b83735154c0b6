package boots

import (
	"context"
	"encoding/json"

	"pando/internal/fleet"
	"pando/internal/registry"
)

// RestoreLinks tells the admission queue which links nodes had when they booted last.
func (s *registrar) RestoreLinks(ctx context.Context) error {
	return s.registry.View(ctx, func(tx *registry.Tx) error {
		boots, err := tx.LatestBoots()
		if err != nil {
			return err
		}
		for _, b := range boots {
			var h fleet.Hardware
			if json.Unmarshal(b.Hardware, &h) == nil { // a boot that did not get so far has no hardware
				s.admission.SawLink(b.MAC, h.Link)
			}
		}
		return nil
	})
}
