package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"
)

func (m *Machine) monitor() string { return filepath.Join(m.Config.Dir, m.Config.Name+".qmp") }

// PowerButton presses the power button, so that the guest shuts down.
func (m *Machine) PowerButton(ctx context.Context) error {
	return m.command(ctx, "system_powerdown", nil)
}

// Reset presses the reset button.
func (m *Machine) Reset(ctx context.Context) error { return m.command(ctx, "system_reset", nil) }

// Freeze stops the guest's CPU until Thaw.
func (m *Machine) Freeze(ctx context.Context) error { return m.command(ctx, "stop", nil) }

// Thaw continues a guest that Freeze stopped.
func (m *Machine) Thaw(ctx context.Context) error { return m.command(ctx, "cont", nil) }

// SetLink plugs in the network cable, or unplugs it.
func (m *Machine) SetLink(ctx context.Context, up bool) error {
	return m.command(ctx, "set_link", map[string]any{"name": "lan", "up": up})
}

// PullCache removes the USB stick with the node's cache, without notice to the guest.
func (m *Machine) PullCache(ctx context.Context) error {
	return m.command(ctx, "device_del", map[string]any{"id": "cache"})
}

// monitorTimeout bounds one command. QEMU answers at once unless it hangs.
const monitorTimeout = 20 * time.Second

// command sends one command by QMP: greeting, negotiation, the command, and its answer among events.
func (m *Machine) command(ctx context.Context, name string, arguments map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", m.monitor())
	if err != nil {
		return fmt.Errorf("machine %s: %s: %w", m.Config.Name, name, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	for _, c := range []qmpCommand{{Execute: "qmp_capabilities"}, {Execute: name, Arguments: arguments}} {
		if err := errors.Join(out.Encode(c), qmpAnswer(in)); err != nil {
			return fmt.Errorf("machine %s: %s: %w", m.Config.Name, name, err)
		}
	}
	return nil
}

type qmpCommand struct {
	Execute   string         `json:"execute"`
	Arguments map[string]any `json:"arguments,omitempty"`
}

// qmpAnswer reads messages until the answer of a command. It skips the greeting and events.
func qmpAnswer(in *json.Decoder) error {
	for {
		var answer struct {
			Return json.RawMessage `json:"return"`
			Error  *struct {
				Desc string `json:"desc"`
			} `json:"error"`
		}
		if err := in.Decode(&answer); err != nil {
			return err
		}
		if answer.Error != nil {
			return errors.New(answer.Error.Desc)
		}
		if answer.Return != nil {
			return nil
		}
	}
}
