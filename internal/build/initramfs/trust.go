package initramfs

import (
	"encoding/json"
	"fmt"

	"pando/internal/api"
)

// TrustCPIO returns the cpio with /pando/boot.json, made for one boot: what the node knows of its site
// before it has spoken to it, and the token with which it speaks once. It is not compressed, so it comes
// first in the initramfs, and its length is a multiple of four. It holds a secret; never log or cache it.
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
