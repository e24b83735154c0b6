package lastboot

import (
	"errors"
	"fmt"

	"pando/internal/api"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/link"
	"pando/internal/problem"
)

// Boot is the signed input of a boot. The signatures of assignment, manifest and pack map are kept too, because the
// disk is not trusted.
type Boot struct {
	Assignment        []byte
	Signature         []byte
	Manifest          []byte
	ManifestSignature []byte
	Pack              []byte // map of the boot pack; empty: the boot had none
	Lease             link.Lease

	As  fleet.Assignment
	Man image.Manifest
}

var (
	errNotAllowed  = errors.New("its group does not allow boots without a server")
	errNothingKept = errors.New("no earlier boot is kept")
)

// verify parses assignment and manifest into As and Man. It returns an error unless both have valid signatures, and
// the manifest's kernel is the given release.
func (b *Boot) verify(cfg api.BootConfig, kernel string) (err error) {
	if b.As, err = control.VerifyAssignment(b.Assignment, b.Signature, cfg.ServerKey); err != nil {
		return err
	}
	if !b.As.Offline {
		return errNotAllowed
	}
	if got := image.Version(b.Manifest); got != b.As.Version {
		return fmt.Errorf(
			"the manifest that is kept has digest %s, assigned was %s",
			got.Short(),
			b.As.Version.Short(),
		)
	}
	trust := image.Trust{Keys: cfg.TrustKeys, Revoked: b.As.RevokedKeys}
	if b.Man, err = trust.Verify(b.Manifest, b.ManifestSignature); err != nil {
		return err
	}
	if b.Man.Kernel.Release != kernel {
		return fmt.Errorf(
			"the boot medium has kernel %s, and version %s needs %s",
			kernel,
			b.As.Version.Short(),
			b.Man.Kernel.Release,
		)
	}
	return nil
}

// Pick returns the newest kept boot with this kernel that came up. If none did, it returns the newest that never came
// up, which may fail: its version may be broken, or the cache may have only a part of it.
func Pick(records Records, cfg api.BootConfig, kernel string) (*Boot, error) {
	kept, err := readKept(records)
	if err == nil && len(kept) == 0 {
		err = errNothingKept
	}
	if err != nil {
		return nil, err
	}
	var first error
	for _, came := range []bool{true, false} {
		for _, k := range kept {
			if k.Booted != came {
				continue
			}
			b, err := k.load(records)
			if err == nil {
				err = b.verify(cfg, kernel)
			}
			if err == nil {
				return b, nil
			}
			if first == nil {
				first = err
			}
		}
	}
	return nil, first
}

// KeepIn writes a boot to the records. It does not touch the parts of boots that stay, and writes the index last, so
// that a power failure leaves the kept boots intact. If the group does not allow boots without a server, it deletes
// all kept boots.
func (b Boot) KeepIn(records Records) error {
	if !b.As.Offline {
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
	return stay.with(keptBoot{Boot: b.As.Boot, Kernel: b.Man.Kernel.Release,
		Version: placed[:len(version)], Assignment: placed[len(version):]}).write(records)
}

func (b Boot) tooLarge() error {
	return &problem.Problem{
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

// markBooted records that a kept boot came up.
func markBooted(records Records, boot fleet.BootID) error {
	kept, err := readKept(records)
	if err != nil {
		return err
	}
	if now, changed := kept.booted(boot); changed {
		return now.write(records)
	}
	return nil
}

// forgetBoots deletes all kept boots, the index first: without it the parts are never read. It also deletes the two
// records in which older releases kept boots.
func forgetBoots(records Records) error {
	names := []string{keptRecord, "boot", "boot before"}
	for slot := range keptParts {
		names = append(names, keptPart{Slot: slot}.record())
	}
	for _, name := range names {
		if old, err := records.Record(name); err != nil || len(old) == 0 {
			continue // no such record, or an unreadable one
		}
		if err := records.SetRecord(name, nil); err != nil {
			return err
		}
	}
	return nil
}
