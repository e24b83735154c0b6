package agent

import (
	"context"
	"fmt"

	"pando/internal/fleet"
	"pando/internal/systemd"
)

// sendState has a unit send the state of this node while it runs.
func sendState(ctx context.Context, order string) error {
	if _, err := systemd.Systemctl(ctx, "start", "--no-block", fleet.StateSender+"@"+order+".service"); err != nil {
		return fmt.Errorf("start to send the node's state: %w (did it boot before this server's last update?)", err)
	}
	return nil
}
