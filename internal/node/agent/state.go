package agent

import (
	"context"
	"fmt"

	"pando/internal/fleet"
	"pando/internal/systemd"
)

// sendState starts the unit that sends this node's state while the node runs. order is the command's ID.
func sendState(ctx context.Context, order string) error {
	if _, err := systemd.Systemctl(ctx, "start", "--no-block", fleet.StateSender+"@"+order+".service"); err != nil {
		return fmt.Errorf("start to send the node's state: %w (did it boot before this server's last update?)", err)
	}
	return nil
}
