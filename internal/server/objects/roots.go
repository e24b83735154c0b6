package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/image"
	"pando/internal/registry"
)

// Roots are the versions that garbage collection keeps, each with the reasons.
type Roots map[fleet.Digest][]string

func (to Roots) add(v fleet.Digest, by string) {
	if v != "" && !slices.Contains(to[v], by) {
		to[v] = append(to[v], by)
	}
}

// roots lists the versions to keep and why: tags, groups, nodes, rollouts, running or recent boots, the newest `keep`
// of each image, and versions that lost a tag less than `left` ago.
func (k *Collector) roots(ctx context.Context, tx *registry.Tx, keep int, left time.Duration) (Roots, error) {
	to := Roots{}
	for _, collect := range []func(*registry.Tx, Roots) error{
		addTagged, addRollouts,
		func(tx *registry.Tx, to Roots) error { return k.addLeft(tx, to, left) },
		func(tx *registry.Tx, to Roots) error { return k.addRunning(ctx, tx, to) },
		func(tx *registry.Tx, to Roots) error { return addNewest(tx, to, keep) },
		k.addWanted, // must be last: extensions stay with the versions that stay
	} {
		if err := collect(tx, to); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// UsedBy lists what uses each version now. Being new is no use.
func (k *Collector) UsedBy(ctx context.Context, tx *registry.Tx) (map[fleet.Digest][]string, error) {
	return k.roots(ctx, tx, 0, 0)
}

func addTagged(tx *registry.Tx, to Roots) error {
	tags, err := tx.Tags("")
	for _, t := range tags {
		to.add(t.Version, "tag "+t.Image+":"+t.Tag)
	}
	return err
}

// TagKept is how long a version stays after a tag has moved away from it. A boot may have been assigned the version
// without being recorded yet.
const TagKept = 10 * time.Minute

func (k *Collector) addLeft(tx *registry.Tx, to Roots, left time.Duration) error {
	moves, err := tx.TagMoves("")
	for _, m := range moves {
		if k.now().Sub(m.At) < left {
			to.add(m.Was, "tag "+m.Image+":"+m.Tag+" until a moment ago")
		}
	}
	return err
}

// addWanted adds what groups and nodes name by digest or by tag, and the extensions for versions that stay.
func (k *Collector) addWanted(tx *registry.Tx, to Roots) error {
	want := func(ref fleet.Ref, by string) {
		if _, _, digest, err := ref.Split(); err == nil && digest != "" {
			to.add(digest, by)
			return
		}
		if d, err := tx.Resolve(ref); err == nil {
			to.add(d, by)
		}
	}
	groups, err := tx.Groups()
	if err != nil {
		return err
	}
	over := map[string]bool{} // names of extensions
	for _, g := range groups {
		want(g.Image, "group "+g.Name)
		for _, r := range g.ExtensionList() {
			want(fleet.Ref(r), "group "+g.Name)
			over[nameOf(r)] = true
		}
	}
	nodes, err := tx.Nodes()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		want(n.Version, "node "+n.Name)
		for _, r := range n.ExtensionList() {
			want(fleet.Ref(r), "node "+n.Name)
			over[nameOf(r)] = true
		}
	}
	return k.addExtensions(tx, to, over)
}

// nameOf returns the image name in a reference, "" if the reference is not valid.
func nameOf(ref string) string {
	name, _, _, err := fleet.Ref(ref).Split()
	if err != nil {
		return ""
	}
	return name
}

// addExtensions adds the newest version of each named extension for each version that stays, because nodes that boot
// such a version get it.
func (k *Collector) addExtensions(tx *registry.Tx, to Roots, names map[string]bool) error {
	for name := range names {
		all, err := tx.Versions(name) // the newest first
		if err != nil {
			return err
		}
		seen := map[fleet.Digest]bool{}
		for _, v := range all {
			kept, err := k.store.GetVersion(v.Version)
			if err != nil {
				continue // its files are gone: there is nothing to keep
			}
			m, err := image.Decode(kept.Manifest)
			if err != nil || !m.IsExtension() || seen[m.Extends.Base] || len(to[m.Extends.Base]) == 0 {
				continue
			}
			seen[m.Extends.Base] = true
			to.add(v.Version, "extends "+m.Extends.Base.Short())
		}
	}
	return nil
}

// addRollouts adds both versions of each live rollout: the new one and the one to roll back to.
func addRollouts(tx *registry.Tx, to Roots) error {
	live, err := tx.Rollouts(registry.RolloutFilter{Live: true})
	for _, r := range live {
		for _, d := range r.Versions() {
			to.add(d, "rollout "+r.ID)
		}
	}
	return err
}

// addRunning adds what nodes run and what they are booting, as assigned and as reported. A node that was not seen for
// fleetview.SilentAfter counts as off.
func (k *Collector) addRunning(ctx context.Context, tx *registry.Tx, to Roots) error {
	boots, err := tx.Boots(registry.BootFilter{})
	if err != nil {
		return err
	}
	now, latest, proved := k.now(), map[fleet.MAC]bool{}, map[fleet.MAC]bool{}
	var ids []fleet.BootID
	of := map[fleet.BootID]string{}
	for _, b := range boots { // the newest first
		if b.Version == "" || proved[b.MAC] || latest[b.MAC] && b.TokenUsed.IsZero() {
			continue // superseded, or the machine restarted before it used the boot's token
		}
		latest[b.MAC] = true
		proved[b.MAC] = !b.TokenUsed.IsZero() // a boot that never registered leaves the earlier version running
		who, last, err := k.lastSign(tx, b)
		if err != nil {
			return err
		}
		if now.Sub(last) < fleetview.SilentAfter {
			to.add(b.Version, who)
			ids, of[b.ID] = append(ids, b.ID), who
		}
	}
	progress, err := k.registry.Progress(ctx, ids...)
	if err != nil {
		return err
	}
	for id, p := range progress {
		var status api.NodeStatus
		if len(p.Status) > 0 && json.Unmarshal(p.Status, &status) == nil {
			to.add(status.Version, of[id])
			for _, e := range status.Extensions {
				to.add(e.Version, of[id])
			}
		}
	}
	return nil
}

// lastSign returns the name of a boot's machine and when it was last seen.
func (k *Collector) lastSign(tx *registry.Tx, b registry.Boot) (who string, last time.Time, err error) {
	last = b.Started
	for _, t := range []time.Time{b.Scripted, b.TokenUsed} {
		if t.After(last) {
			last = t
		}
	}
	n, err := tx.NodeByMAC(b.MAC)
	if errors.Is(err, registry.ErrNotFound) {
		return "machine " + b.MAC.String(), last, nil
	}
	if seen := k.seen(n); err == nil && seen.After(last) {
		last = seen
	}
	return "node " + n.Name, last, err
}

func addNewest(tx *registry.Tx, to Roots, keep int) error {
	versions, err := tx.Versions("") // by image, newest first
	seen := map[string]int{}
	for _, v := range versions {
		if seen[v.Image]++; seen[v.Image] <= keep {
			to.add(v.Version, fmt.Sprintf("one of the newest %d of %s", keep, v.Image))
		}
	}
	return err
}
