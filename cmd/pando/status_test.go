package main

import (
	"testing"
	"time"

	"pando/internal/api"
)

func TestLoadCounts(t *testing.T) {
	for want, l := range map[string]api.Loads{
		"": {Slots: 10},
		"3 of 10 nodes that may at the same time":                                               {Slots: 10, Loading: 3},
		"10 of 10 nodes that may at the same time; 38 wait for their turn, the last about 5.7s": {Slots: 10, Loading: 10, Waiting: 38, Expect: 5700 * time.Millisecond},
	} {
		if got := loadCounts(l); got != want {
			t.Errorf("%+v is %q, want %q", l, got, want)
		}
	}
}
