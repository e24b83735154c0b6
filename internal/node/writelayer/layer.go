package writelayer

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
	"pando/internal/problem"
	"pando/internal/trace"
)

// Layer makes the writable root of a node: it mounts the write layer and the overlay of it on the read-only root. A
// boot uses one Layer for all its attempts.
type Layer struct {
	Lower, Upper, Root string // mount points of the read-only root, the write layer, and the overlay

	// FindDisk waits for disk drivers and returns the device that look finds, or "".
	FindDisk func(ctx context.Context, look func() string) (string, error)
	Tell     func(trace.Event)

	limit   string
	version fleet.Digest
	zram    string // number of the zram device of an earlier attempt; "": none
}

// layer is the write layer of this boot.
type layer struct {
	fleet.WriteLayer
	kept bool   // it has the changes of the previous boot
	text string // description for people, after "writable"
}

// Mount mounts the write layer and the overlay. If the wanted write layer cannot be used, Mount reports that and uses
// memory. want is the assignment's (fleet.ParseWriteLayer), limit "" means half of the memory, version is the one
// that boots. used has the form of want.
func (w *Layer) Mount(
	ctx context.Context,
	want, limit string,
	version fleet.Digest,
) (used, text string, err error) {
	w.limit, w.version = limit, version
	l, err := fleet.ParseWriteLayer(want)
	if err != nil { // a newer server knows more kinds
		w.withoutLayer(err)
		l.Kind = fleet.LayerMemory
	}
	for fresh := false; ; {
		made, err := w.writable(ctx, l, fresh)
		if err == nil {
			err = w.mountOverlay()
		}
		switch {
		case err == nil:
			return made.WriteLayer.String(), made.text, nil
		case ctx.Err() != nil || l.Kind == fleet.LayerMemory:
			return "", "", err
		case made.kept:
			w.Tell(
				trace.Event{
					Stage:   trace.Root,
					Kind:    trace.Info,
					Message: "the kept changes cannot be used and are wiped: " + err.Error(),
				},
			)
			fresh = true
		default:
			w.withoutLayer(err)
			l = fleet.WriteLayer{Kind: fleet.LayerMemory}
		}
		_ = unix.Unmount(w.Upper, unix.MNT_DETACH) // it may not be mounted
	}
}

// withoutLayer reports that the node writes to memory, contrary to its group's setting.
func (w *Layer) withoutLayer(err error) {
	hint := problem.HintOf(err)
	if hint == "" {
		hint = "the image needs kmod and its kernel's modules for it; `pando group set --write-layer tmpfs` if " +
			"memory is what you want"
	}
	w.Tell(
		trace.Event{
			Stage:   trace.Root,
			Kind:    trace.Info,
			Message: "the node writes to memory (tmpfs): " + err.Error(),
			Hint:    hint,
		},
	)
}

// writable mounts the write layer where the overlay expects it.
func (w *Layer) writable(ctx context.Context, l fleet.WriteLayer, fresh bool) (layer, error) {
	limit := cmp.Or(w.limit, fleet.DefaultWriteLimit)
	switch l.Kind {
	case fleet.LayerZram:
		return w.zramLayer(ctx, l, limit)
	case fleet.LayerDisk:
		return w.diskLayer(ctx, l, fresh)
	}
	return layer{WriteLayer: l, text: "up to " + limit + " in memory"}, mountMemory(w.Upper, limit)
}

// leastLayer is the minimum size in bytes of a write layer with its own file system.
const leastLayer = 16 << 20

// layerSize returns the bytes of a write limit ("50%", "2g", "4096") on a node with memory bytes.
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
