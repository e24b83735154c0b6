package testbed

import (
	"testing"

	"pando/internal/testkit"
	"pando/internal/trace"
)

// The recorded machine has the hardware of the measured one: without a graphics card a desktop never starts.
func TestTheMachineThatIsMeasuredIsRecorded(t *testing.T) {
	for _, screen := range []bool{false, true} {
		b := &Testbed{Until: trace.Booted, Screen: screen, Star: &testkit.Star{}}
		if c := b.recorderMachine(); c.Screen != screen {
			t.Errorf("screen %t: what is recorded has a graphics card: %t", screen, c.Screen)
		}
	}
}
