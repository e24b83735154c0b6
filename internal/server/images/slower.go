package images

import (
	"context"
	"fmt"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Limits of the boots that are compared.
const (
	slowerBoots    = 200 // of each version, the latest
	slowerLeast    = 5   // of each version: fewer may be slow by chance
	slowerVersions = 6   // of an image, the newest
)

// Slower returns a text that says by how much and why boots of version `after` are slower than those of `before`; "" if
// they are not, or if it may be chance. It compares boots of hardware that has booted both, in one group or in all
// ("").
func Slower(ctx context.Context, reg *registry.Registry, group string, before, after fleet.Digest) (string, error) {
	if before == "" || before == after {
		return "", nil
	}
	was, err := reg.History(ctx, registry.HistoryFilter{Version: before, Group: group, Limit: slowerBoots})
	if err != nil {
		return "", err
	}
	is, err := reg.History(ctx, registry.HistoryFilter{Version: after, Group: group, Limit: slowerBoots})
	if err != nil {
		return "", err
	}
	changes := trace.Compare(endsOf(was, classesIn(is)), endsOf(is, classesIn(was)))
	all := changes[0]
	if min(all.Before.Count, all.After.Count) < slowerLeast || !all.Real || all.Shift <= 0 {
		return "", nil
	}
	text := fmt.Sprintf(
		"boots take %s longer than with %s (median of %d: %s)",
		all.Shift.Round(100*time.Millisecond),
		before.Short(),
		all.After.Count,
		all.After.P50.Round(100*time.Millisecond),
	)
	if s := trace.Culprit(changes); s != "" {
		text += fmt.Sprintf(", most of it in %s", s)
	}
	return text, nil
}

func classesIn(boots []registry.PastBoot) map[string]bool {
	out := map[string]bool{}
	for _, b := range boots {
		out[b.Class] = true
	}
	return out
}

func endsOf(boots []registry.PastBoot, classes map[string]bool) []trace.Ends {
	var out []trace.Ends
	for _, b := range boots {
		if classes[b.Class] && !fleet.SkipsFirmware(b.Firmware) {
			out = append(out, b.Ends)
		}
	}
	return out
}

// markSlower marks the newest versions of an image that boot slower than the version before them.
func (a *API) markSlower(ctx context.Context, i *api.Image) error {
	for n := range min(len(i.Versions)-1, slowerVersions) {
		text, err := Slower(ctx, a.registry, "", i.Versions[n+1].Digest, i.Versions[n].Digest)
		if err != nil {
			return err
		}
		i.Versions[n].Slower = text
	}
	return nil
}
