package boot

import (
	"fmt"
	"os"

	"pando/internal/fleet"
)

// keptMark is how the agent finds this boot among those that are kept for boots without a server.
type keptMark struct {
	Device string `json:"device"` // of the cache
	// that the assignment was made for; another one than this boot's when no server answered
	Boot fleet.BootID `json:"boot"`
}

// keepBooted has the cache's disk say that this boot came up, once. Nothing waits for it: a disk that hangs is left
// alone with it. The block daemon has the disk open, and writes elsewhere.
func (a *agent) keepBooted() {
	k := a.session.Kept
	if k == nil || !a.booted.Load() || a.marked {
		return
	}
	a.marked = true
	go func() {
		if err := k.booted(); err != nil {
			a.logf("%v", err)
			a.info(
				err.Error(),
				"without a server the node boots what came up before, if that is kept; is the disk broken, or was "+
					"it pulled out?",
			)
		}
	}()
}

func (k keptMark) booted() error {
	f, err := os.OpenFile(k.Device, os.O_RDWR, 0)
	if err == nil {
		defer f.Close()
		_, err = onRecords(
			&CacheDisk{Name: k.Device, File: f},
			func(records bootRecords) (string, error) { return "", markBooted(records, k.Boot) },
		)
	}
	if err != nil {
		return fmt.Errorf("note in the cache that this boot came up: %w", err)
	}
	return nil
}
