package watch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/terminal"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// manyNodes returns a fleet of n nodes in all states, some with hostile text.
func manyNodes(n int) []api.Node {
	var out []api.Node
	for i := range n {
		state := []trace.State{trace.Up, trace.Up, trace.Booting, trace.Up, trace.Down}[i%5]
		if i%500 == 7 {
			state = trace.Failed
		}
		x := watchedNode(
			fmt.Sprintf("a-node-with-a-name-that-is-too-long-%05d", i),
			state,
			trace.Root,
			time.Duration(i)*time.Millisecond,
			map[string]int64{"k": 14_200_000, "server": 33_100_000, "peer": 1 << 40, "cache": 12},
		)
		if state == trace.Failed {
			x.Boot.Failure = strings.Repeat("磁盘错误 ", 20) + "\x1b[2J\x07\u202e" + "GET http://10.0.0.1"
		}
		out = append(out, x)
	}
	return out
}

// TestWatchOnTerminals: on no terminal does a line wrap or the screen scroll, whatever nodes report, and the last
// column is used.
func TestWatchOnTerminals(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 10}, {17, 5}, {80, 2}, {1, 1}} {
		for _, n := range []int{0, 3, 10_000} {
			d := testkit.NewDisplay(size[0], size[1])
			v := watchView{nodes: manyNodes(n), now: zero}
			for range 2 {
				d.Write(terminal.HideCursor + terminal.CursorHome + v.render(size[0], size[1]) + terminal.ClearBelow)
			}
			if d.Wrapped || d.Scrolled {
				t.Errorf(
					"%d nodes on %dx%d: wrapped %v, scrolled %v\n%s",
					n,
					size[0],
					size[1],
					d.Wrapped,
					d.Scrolled,
					d,
				)
			}
			if n == 10_000 && size == [2]int{80, 24} {
				testkit.Golden(t, *update, "watch_many.txt", d.String())
			}
		}
	}
}
