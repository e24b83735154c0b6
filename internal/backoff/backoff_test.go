package backoff

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSleepEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := Sleep(t.Context(), time.Hour); err != nil || time.Since(begun) != time.Hour {
			t.Errorf("slept %v, %v", time.Since(begun), err)
		}
	})
}

func TestBackoffIsBounded(t *testing.T) {
	for attempt := 1; attempt < 100; attempt++ {
		if d := Delay(attempt); d < First || d > Longest {
			t.Errorf("backoff(%d) = %v", attempt, d)
		}
	}
}
