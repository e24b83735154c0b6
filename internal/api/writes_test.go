package api

import (
	"testing"

	"pando/internal/fleet"
)

func TestWrites(t *testing.T) {
	for _, x := range []struct{ is, should, want string }{
		{"", "zram", ""}, {"zram", "zram", "zram"}, {"tmpfs", "zram", "tmpfs, and its settings say " +
			"zram"}, {"disk wipe", "disk", "disk wipe"},
		{"disk wipe", "disk keep", "disk wipe, and its settings say disk keep"}, {"tmpfs", "nvram", "tmpfs, and " +
			"its settings say nvram"}, {"tmpfs", "", "tmpfs"},
	} {
		n := Node{
			Status: &NodeStatus{WriteLayer: x.is},
			Effective: []fleet.Value{
				{Setting: "peers", Value: "on"},
				{Setting: fleet.SettingWriteLayer, Value: x.should},
			},
		}
		if got := n.Writes().String(); got != x.want {
			t.Errorf("%q where %q is set: %q, want %q", x.is, x.should, got, x.want)
		}
	}
	if got := (Node{}).Writes(); got != (Writes{}) {
		t.Errorf("of a node that says nothing: %+v", got)
	}
}
