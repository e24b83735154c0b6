package image

import (
	"errors"
	"fmt"

	"pando/internal/fleet"
)

// Extends says that a version is an extension: files below /usr and /opt that running nodes lay over the version
// that it was made on. It has no kernel and no drivers, and boots nothing.
type Extends struct {
	Name string       `json:"name"` // as systemd-sysext knows it, and the name of the image that it is a version of
	Base fleet.Digest `json:"base"` // the only version that it fits
}

// IsExtension reports whether a version is laid over others and boots nothing.
func (m Manifest) IsExtension() bool { return m.Extends != nil }

// Fits returns why a version cannot be laid over base, and what can be done; nil when it can.
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

// checkExtends is what an extension has in the place of a kernel.
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
