package bench

import (
	"time"

	"pando/internal/testkit"
)

// Eta is the part of a link that is left for data: of a frame of 1,538 bytes on the wire TCP with time stamps has
// 1,448.
const Eta = 0.94

// Unit is W/(eta B): how long one link needs for one boot set. Results in it do not depend on the rate.
func Unit(w int64, rate testkit.Rate) time.Duration {
	return time.Duration(float64(w) * 8 / (Eta * float64(rate)) * float64(time.Second))
}
