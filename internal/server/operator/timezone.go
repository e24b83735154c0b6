package operator

import (
	"fmt"
	"time"

	"pando/internal/fleet"
	"pando/internal/httpapi"
)

// knownZone refuses hours of a time zone that there is not.
func knownZone(s fleet.Settings) error {
	h := fleet.ValueOf(s.Hours)
	t, err := h.Parse()
	if h == "" || err != nil || t.Zone == "" {
		return nil // the validation says what is wrong
	}
	if _, err := time.LoadLocation(t.Zone); err != nil {
		return httpapi.BadRequest(
			fmt.Sprintf("hours: there is no time zone %q here", t.Zone),
			"name it like Europe/Berlin, or UTC",
		)
	}
	return nil
}
