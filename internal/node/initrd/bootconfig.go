package initrd

import (
	"encoding/json"
	"fmt"
	"os"

	"pando/internal/api"
)

// readBootConfig reads boot.json of the trust cpio.
func readBootConfig(file string) (api.BootConfig, error) {
	var cfg api.BootConfig
	data, err := os.ReadFile(file)
	if err != nil {
		return cfg, fmt.Errorf("read the trust cpio's boot.json: %w", err)
	}
	if err := json.Unmarshal(data, &cfg); err != nil {
		return cfg, fmt.Errorf("read the trust cpio's boot.json: %w", err)
	}
	if cfg.Format != 1 {
		return cfg, fmt.Errorf("trust cpio has format %d, this agent knows 1", cfg.Format)
	}
	return cfg, nil
}
