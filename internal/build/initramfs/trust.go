package initramfs

import (
	"encoding/json"
	"fmt"

	"pando/internal/api"
)

// TrustCPIO returns the cpio with /pando/boot.json for one boot: what the node knows about its site before its first
// request, and its boot token. It is not compressed, so it comes first in the initramfs, padded to a multiple of four
// bytes. It contains a secret: never log or cache it.
func TrustCPIO(cfg api.BootConfig) ([]byte, error) {
	data, err := json.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("trust cpio of boot %s: %w", cfg.Boot, err)
	}
	c := newCPIO()
	c.dir("pando", 0o755)
	c.file("pando/boot.json", 0o600, data)
	return c.bytes()
}
