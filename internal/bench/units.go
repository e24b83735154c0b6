package bench

import (
	"time"

	"pando/internal/testkit"
)

// Eta is the share of a link that carries data: of 1,538 bytes on the wire for a frame, TCP with time stamps carries
// 1,448.
const Eta = 0.94

// Unit returns W/(eta B): the time that one link needs for one boot set. Results in this unit do not depend on the
// rate.
func Unit(w int64, rate testkit.Rate) time.Duration {
	return time.Duration(float64(w) * 8 / (Eta * float64(rate)) * float64(time.Second))
}
