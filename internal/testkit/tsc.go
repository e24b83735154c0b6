package testkit

import (
	"os"
	"strings"
	"sync"
	"time"
)

// tscTime is over how long the counter is compared with the clock.
const tscTime = 100 * time.Millisecond

// tscKHz is how fast the time stamp counter goes, 0 where it does not go evenly or there is none.
var tscKHz = sync.OnceValue(func() int64 {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !strings.Contains(string(info), "constant_tsc") || readTSC() == 0 {
		return 0
	}
	t1, c1 := tscNow()
	time.Sleep(tscTime)
	t2, c2 := tscNow()
	if c2 <= c1 {
		return 0
	}
	return int64(float64(c2-c1) / float64(t2.Sub(t1)) * 1e6)
})

// tscNow is the clock and the counter at the same time: of several looks, the one that took least.
func tscNow() (at time.Time, count uint64) {
	best := time.Hour
	for range 20 {
		before := time.Now()
		c := readTSC()
		took := time.Since(before)
		if took < best {
			best, at, count = took, before.Add(took/2), c
		}
	}
	return at, count
}
