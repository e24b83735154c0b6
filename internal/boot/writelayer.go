package boot

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"pando/internal/fleet"
	"pando/internal/trace"

	"golang.org/x/sys/unix"
)

// layer is what takes the writes of this boot.
type layer struct {
	fleet.WriteLayer
	kept bool   // it has what the boot before wrote
	text string // for people, after "writable"
}

// overlay mounts what takes the node's writes, and the overlay over both. What cannot be had, or cannot be used, is
// a fact on the timeline, and the node writes to memory instead: no boot fails for it.
func (m *machine) overlay(ctx context.Context) (string, error) {
	l, err := fleet.ParseWriteLayer(m.assigned().WriteLayer)
	if err != nil { // of a server that knows more kinds
		m.withoutLayer(err)
		l.Kind = fleet.LayerMemory
	}
	for fresh := false; ; {
		used, err := m.writable(ctx, l, fresh)
		if err == nil {
			err = mountOverlay(m.at)
		}
		switch {
		case err == nil:
			m.writes = used.WriteLayer.String()
			return used.text, nil
		case ctx.Err() != nil || l.Kind == fleet.LayerMemory:
			return "", err
		case used.kept:
			m.event(
				trace.Event{
					Stage:   trace.Root,
					Kind:    trace.Info,
					Message: "what was kept is wiped, for it cannot be used: " + err.Error(),
				},
			)
			fresh = true
		default:
			m.withoutLayer(err)
			l = fleet.WriteLayer{Kind: fleet.LayerMemory}
		}
		_ = unix.Unmount(m.at.upper, unix.MNT_DETACH) // there may be none
	}
}

// withoutLayer says that the node writes to memory, against what its group says.
func (m *machine) withoutLayer(err error) {
	hint := hintOf(err)
	if hint == "" {
		hint = "the image needs kmod and its kernel's modules for it; `pando group set --write-layer tmpfs` if " +
			"memory is what you want"
	}
	m.event(
		trace.Event{
			Stage:   trace.Root,
			Kind:    trace.Info,
			Message: "the node writes to memory (tmpfs): " + err.Error(),
			Hint:    hint,
		},
	)
}

// writable mounts what takes the node's writes where the overlay looks for it.
func (m *machine) writable(ctx context.Context, l fleet.WriteLayer, fresh bool) (layer, error) {
	limit := cmp.Or(m.assigned().WriteLimit, defaultWriteLimit)
	switch l.Kind {
	case fleet.LayerZram:
		return m.zramLayer(ctx, l, limit)
	case fleet.LayerDisk:
		return m.diskLayer(ctx, l, fresh)
	}
	return layer{WriteLayer: l, text: "up to " + limit + " in memory"}, mountMemory(m.at, limit)
}

// leastLayer is the least size of a write layer that has a file system, in bytes.
const leastLayer = 16 << 20

// layerSize is how many bytes a write limit is on a node with so much memory: "50%", "2g", "4096".
func layerSize(limit string, memory int64) (int64, error) {
	number, unit := strings.ToLower(limit), int64(1)
	if i := len(number) - 1; i > 0 {
		units := map[byte]int64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30, '%': memory / 100}
		if u := units[number[i]]; u != 0 {
			number, unit = number[:i], u
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || unit > 0 && n > (1<<62)/unit {
		return 0, fmt.Errorf("write limit %q: want a share of memory, or a size", limit)
	}
	return max(n*unit, leastLayer) &^ 4095, nil
}
