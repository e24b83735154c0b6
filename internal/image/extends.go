package image

import (
	"errors"
	"fmt"

	"pando/internal/fleet"
)

// Extends marks a version as an extension: files below /usr and /opt that running nodes mount over the version that
// it was made for. It has no kernel and no drivers, and no node boots it.
type Extends struct {
	Name string       `json:"name"` // name for systemd-sysext, and name of the extension's image
	Base fleet.Digest `json:"base"` // the only version that the extension fits
}

// IsExtension reports whether the version is an extension, which no node boots.
func (m Manifest) IsExtension() bool { return m.Extends != nil }

// Fits returns why a version cannot be mounted over base, and what can be done; nil if it can.
func (m Manifest) Fits(base fleet.Digest) error {
	switch {
	case !m.IsExtension():
		return errors.New("it is an image that nodes boot, not an extension")
	case m.Extends.Base != base:
		return fmt.Errorf(
			"extension %s was made on %s, and this is %s",
			m.Extends.Name,
			m.Extends.Base.Short(),
			base.Short(),
		)
	}
	return nil
}

// checkExtends checks the fields of an extension, which has no kernel.
func (m Manifest) checkExtends() error {
	e := m.Extends
	if err := fleet.ValidName("extension", e.Name); err != nil {
		return fmt.Errorf("extends.name: %w", err)
	}
	if _, err := fleet.ParseDigest(string(e.Base)); err != nil {
		return fmt.Errorf("extends.base: %w", err)
	}
	if m.Kernel != (Kernel{}) || len(m.Drivers) > 0 || len(m.CommandLine) > 0 || m.PackKey != "" {
		return errors.New("extends: an extension has no kernel, no drivers and no kernel arguments")
	}
	return nil
}
