package power

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"pando/internal/fleet"
)

// Action is what a switch does to a node.
type Action string

// The actions.
const (
	On     Action = "on"
	Off    Action = "off"   // a shutdown by the operating system; with Force the power is cut
	Cycle  Action = "cycle" // off and on without a shutdown; a node that is off is switched on
	Status Action = "status"
)

// State says whether a node has power.
type State string

// The states.
const (
	IsOn    State = "on"
	IsOff   State = "off"
	Unknown State = "unknown"
)

// Request is one action on one node.
type Request struct {
	Action   Action
	To       fleet.PowerTo
	Node     string
	MACs     []fleet.MAC
	Password string
	Force    bool // for Off: cut the power
	Network  bool // for On and Cycle: boot from the network this once, whatever the firmware's boot order is
}

// ErrAgent means that only the node itself can do this, because Wake-on-LAN cannot switch off.
var ErrAgent = errors.New("Wake-on-LAN can only switch on")

// ErrNone means that the node has no power method.
var ErrNone = errors.New("its power is none: it is not switched from here")

// Timeout limits one action. A slow controller takes ten seconds per request, and an action needs several.
const Timeout = 45 * time.Second

// Switch switches nodes.
type Switch struct {
	Links func() ([]netip.AddrPort, error)  // broadcast addresses for magic packets without an address of their own
	Find  func(name string) (string, error) // the path of a program that may be run
}

// Do performs one action. It returns the state before the action. Status changes nothing.
func (s Switch) Do(ctx context.Context, r Request) (State, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Timeout, fmt.Errorf("it has not answered within %s", Timeout))
	defer cancel()
	var state State
	var err error
	switch r.To.Method {
	case fleet.PowerWOL:
		state, err = s.wake(ctx, r)
	case fleet.PowerRedfish:
		state, err = redfish(ctx, r)
	case fleet.PowerIPMI:
		state, err = ipmi(ctx, r)
	case fleet.PowerCommand:
		state, err = s.command(ctx, r)
	default:
		return Unknown, ErrNone
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, ErrAgent) {
		err = fmt.Errorf("%s by %s: %w", r.Action, r.To.Method, err)
	}
	return state, err
}

// step is what a controller is told to do.
type step string

const (
	nothing  step = ""
	powerOn  step = "on"
	shutDown step = "shut down" // by the operating system
	cut      step = "cut"
	restart  step = "restart" // without a shutdown
)

// decide returns the step for an action in a state.
func decide(a Action, state State, force bool) step {
	switch {
	case a == On && state != IsOn, a == Cycle && state == IsOff:
		return powerOn
	case a == Cycle:
		return restart
	case a == Off && state != IsOff && force:
		return cut
	case a == Off && state != IsOff:
		return shutDown
	}
	return nothing
}
