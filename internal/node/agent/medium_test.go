package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	"pando/internal/rundir"
)

// renewedOnce is a MediumCare whose medium was updated.
type renewedOnce struct {
	nothing
	looks int
}

func (m *renewedOnce) Look(context.Context, time.Duration) (disk string, wrote int64, ok bool) {
	m.looks++
	return "/dev/sdx", 1, true
}

// The agent reports that the medium was updated, and does not check again in this boot.
func TestAgentTellsOfARenewedMedium(t *testing.T) {
	a, m := testAgent(t, rundir.Session{}), &renewedOnce{}
	a.Use(Parts{Extensions: nothing{}, Next: nothing{}, Medium: m})
	a.renewMedium(t.Context())
	if m.looks > 0 {
		t.Error("it looks before the node has booted")
	}
	a.record.booted(1)
	for range 2 {
		a.renewMedium(t.Context())
	}
	var kept progress
	if err := rundir.ReadJSON(a.who.dir, rundir.ProgressName, &kept); err != nil || m.looks != 1 || !kept.Medium {
		t.Errorf("looked %d times, kept %v, %v", m.looks, kept.Medium, err)
	}
	if output := a.report.Take(); len(output) != 1 || !strings.Contains(output[0].Message, "/dev/sdx") {
		t.Errorf("the timeline has %+v", output)
	}
}
