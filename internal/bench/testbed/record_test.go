package testbed

import (
	"testing"

	"pando/internal/testkit"
	"pando/internal/trace"
)

// A boot pack is of the machine that is measured: one without a graphics card never starts a desktop.
func TestTheMachineThatIsMeasuredIsRecorded(t *testing.T) {
	for _, screen := range []bool{false, true} {
		b := &Testbed{Until: trace.Booted, Screen: screen, Star: &testkit.Star{}}
		if c := b.recorderMachine(); c.Screen != screen {
			t.Errorf("screen %t: what is recorded has a graphics card: %t", screen, c.Screen)
		}
	}
}
