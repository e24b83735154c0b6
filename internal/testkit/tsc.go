package testkit

import (
	"os"
	"strings"
	"sync"
	"time"
)

// tscTime is the interval over which the counter is compared with the clock.
const tscTime = 100 * time.Millisecond

// tscKHz returns the rate of the time stamp counter, 0 if there is none or its rate is not constant.
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

// tscNow reads clock and counter at the same time. It repeats that and returns the reading that took least time.
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
