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
	Lower, Upper, Root string // mount points: the read-only root, what is written, the overlay of both

	// FindDisk waits for disk drivers and returns the device that look finds, or "".
	FindDisk func(ctx context.Context, look func() string) (string, error)
	Tell     func(trace.Event)

	limit   string
	version fleet.Digest
	zram    string // number of the device that an attempt made; "": none
}

// layer is what takes the writes of this boot.
type layer struct {
	fleet.WriteLayer
	kept bool   // it has what the boot before wrote
	text string // for people, after "writable"
}

// Mount mounts the write layer and the overlay. If the wanted write layer cannot be used, that is a fact on the
// timeline and the node writes to memory: no boot fails for it.
//
// want comes from the assignment (fleet.ParseWriteLayer); limit is "" for half of the memory; version is what the node
// boots. It returns what is used, in the form of want and as text.
func (w *Layer) Mount(
	ctx context.Context,
	want, limit string,
	version fleet.Digest,
) (used, text string, err error) {
	w.limit, w.version = limit, version
	l, err := fleet.ParseWriteLayer(want)
	if err != nil { // of a server that knows more kinds
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
					Message: "what was kept is wiped, for it cannot be used: " + err.Error(),
				},
			)
			fresh = true
		default:
			w.withoutLayer(err)
			l = fleet.WriteLayer{Kind: fleet.LayerMemory}
		}
		_ = unix.Unmount(w.Upper, unix.MNT_DETACH) // there may be none
	}
}

// withoutLayer reports that the node writes to memory although its group says otherwise.
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

// writable mounts what takes the node's writes where the overlay looks for it.
func (w *Layer) writable(ctx context.Context, l fleet.WriteLayer, fresh bool) (layer, error) {
	limit := cmp.Or(w.limit, defaultWriteLimit)
	switch l.Kind {
	case fleet.LayerZram:
		return w.zramLayer(ctx, l, limit)
	case fleet.LayerDisk:
		return w.diskLayer(ctx, l, fresh)
	}
	return layer{WriteLayer: l, text: "up to " + limit + " in memory"}, mountMemory(w.Upper, limit)
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
