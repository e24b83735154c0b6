package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// keepBoot keeps this boot for one without a server, or forgets those that are kept when the group does not allow
// that. used is the cache disk that is in use; without one there may be another that was used once. It comes when
// the root is mounted: a slow disk holds up nothing that streams meanwhile.
func (m *machine) keepBoot(ctx context.Context, used *CacheDisk) {
	if m.isOffline() {
		if used != nil && !used.ReadOnly {
			m.kept = &keptMark{used.Name, m.offline.assignment.Boot}
		}
		return
	}
	b := m.thisBoot()
	device, err := m.keptOn(ctx, used, b)
	switch {
	case errors.Is(err, errNoRecords): // there is nothing to boot from, which is told where a cache is wanted
	case err != nil:
		m.event(noBootKept(b.assignment.Offline, err))
	case b.assignment.Offline:
		m.kept = &keptMark{device, b.assignment.Boot}
	}
}

// keptOn keeps a boot on the cache disk that is in use, or on another, and returns which.
func (m *machine) keptOn(ctx context.Context, used *CacheDisk, b lastBoot) (string, error) {
	if used == nil {
		return withRecords(
			ctx,
			m,
			func(records bootRecords) (string, error) { return "/dev/" + m.disks.name, b.keepIn(records) },
		)
	}
	return within(ctx, used.Name, func() (string, error) {
		return onRecords(used, func(records bootRecords) (string, error) { return used.Name, b.keepIn(records) })
	})
}

// noBootKept says to who looks at the timeline that the disk does not have what the group wants it to have.
func noBootKept(wanted bool, err error) trace.Event {
	message := "not kept for a boot without a server: "
	if !wanted {
		message = "what was kept for boots without a server stays: "
	}
	return trace.Event{Stage: trace.Device, Kind: trace.Info, Message: message + err.Error(),
		Hint: cmp.Or(hintOf(err), "is the disk broken, or read-only? what it had before stays")}
}

// thisBoot is what this boot was told to run.
func (m *machine) thisBoot() lastBoot {
	return lastBoot{Assignment: m.answer.Assignment, Signature: m.answer.Signature, Manifest: m.manifestBytes,
		ManifestSignature: m.manifestSignature, Pack: m.pack, Lease: m.lease, assignment: m.assigned(), manifest: m.manifest}
}

// keepIn keeps a boot beside those of the index. The parts of those that stay are not touched, and the new index
// comes last: when the power fails before, they are whole.
func (b lastBoot) keepIn(records bootRecords) error {
	if !b.assignment.Offline {
		return forgetBoots(records)
	}
	kept, err := readKept(records)
	if err != nil {
		return err
	}
	version, assignment, err := b.parts()
	if err != nil {
		return err
	}
	parts := append(version, assignment...)
	there := kept.holding(records, parts)
	stay, placed, ok := kept.place(there)
	if !ok {
		return b.tooLarge()
	}
	if len(stay) < len(kept) {
		if err := stay.write(records); err != nil {
			return err
		}
	}
	for i, p := range placed {
		if there[i].Slot != nowhere {
			continue
		}
		if err := records.SetRecord(p.record(), parts[i]); err != nil {
			return err
		}
	}
	return stay.with(keptBoot{Boot: b.assignment.Boot, Kernel: b.manifest.Kernel.Release,
		Version: placed[:len(version)], Assignment: placed[len(version):]}).write(records)
}

func (b lastBoot) tooLarge() error {
	return &Problem{
		Err: fmt.Errorf(
			"its assignment, with the config files, has %d KB, its manifest and the map of its boot pack %d KB: "+
				"the cache has no room for them beside what is kept",
			len(b.Assignment)/1e3,
			(len(b.Manifest)+len(b.Pack))/1e3,
		),
		Hint: "give the node fewer or smaller config files, which `pando config render` shows; what was kept " +
			"before stays",
	}
}

// markBooted notes that a boot that is kept came up.
func markBooted(records bootRecords, boot fleet.BootID) error {
	kept, err := readKept(records)
	if err != nil {
		return err
	}
	if now, changed := kept.booted(boot); changed {
		return now.write(records)
	}
	return nil
}

// forgetBoots takes back what was kept, the index first: without it the rest is nothing. Releases before this one
// kept boots in two records of their own.
func forgetBoots(records bootRecords) error {
	names := []string{keptRecord, "boot", "boot before"}
	for slot := range keptParts {
		names = append(names, keptPart{Slot: slot}.record())
	}
	for _, name := range names {
		if old, err := records.Record(name); err != nil || len(old) == 0 {
			continue // there never was one, or it cannot be read
		}
		if err := records.SetRecord(name, nil); err != nil {
			return err
		}
	}
	return nil
}
