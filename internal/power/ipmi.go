package power

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"
)

// ipmiPort is the port of RMCP.
const ipmiPort = 623

// controls are the chassis controls of each step (IPMI 2.0, 28.3).
var controls = map[step]chassis.ChassisControl{
	powerOn:  chassis.ChassisControlPowerUp,
	shutDown: chassis.ChassisControlSoftShutdown,
	cut:      chassis.ChassisControlPowerDown,
	restart:  chassis.ChassisControlPowerCycle,
}

func ipmi(ctx context.Context, r Request) (state State, err error) {
	host, port, err := hostPort(r.To.Host, ipmiPort)
	if err != nil {
		return Unknown, err
	}
	c, err := client.NewClient(host, port, r.To.User, r.Password)
	if err != nil {
		return Unknown, err
	}
	// OpenBMC refuses suite 3, which knows only SHA-1; older boards refuse 17.
	c = c.WithInterface(client.InterfaceLanplus).WithCipherSuiteID(types.CipherSuiteID17, types.CipherSuiteID3).
		WithMaxPrivilegeLevel(types.PrivilegeLevelOperator)
	if err := c.Connect(ctx); err != nil {
		return Unknown, fmt.Errorf("open a session with %s as %s: %w", r.To.Host, r.To.User, err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }() // a session that is not closed ends by itself
	status, err := c.GetChassisStatus(ctx)
	if err != nil {
		return Unknown, fmt.Errorf("read the chassis status: %w", err)
	}
	state = IsOff
	if status.PowerIsOn {
		state = IsOn
	}
	do := decide(r.Action, state, r.Force)
	if do == nothing {
		return state, nil
	}
	if r.Network && (do == powerOn || do == restart) {
		if err := c.SetBootDevice(ctx, types.BootDeviceSelectorForcePXE, types.BIOSBootTypeEFI, false); err != nil {
			return state, fmt.Errorf("boot from the network once: %w", err)
		}
	}
	if _, err := c.ChassisControl(ctx, controls[do]); err != nil {
		return state, fmt.Errorf("%s: %w", do, err)
	}
	return state, nil
}

// hostPort splits an address with an optional port.
func hostPort(s string, otherwise int) (string, int, error) {
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return s, otherwise, nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return "", 0, fmt.Errorf("address %s: %q is no port", s, text)
	}
	return host, int(port), nil
}
