package operator

import (
	"fmt"
	"time"

	"pando/internal/fleet"
	"pando/internal/httpapi"
)

// knownZone refuses hours in an unknown time zone.
func knownZone(s fleet.Settings) error {
	h := fleet.ValueOf(s.Hours)
	t, err := h.Parse()
	if h == "" || err != nil || t.Zone == "" {
		return nil // the general validation reports the error
	}
	if _, err := time.LoadLocation(t.Zone); err != nil {
		return httpapi.BadRequest(
			fmt.Sprintf("hours: there is no time zone %q here", t.Zone),
			"name it like Europe/Berlin, or UTC",
		)
	}
	return nil
}
