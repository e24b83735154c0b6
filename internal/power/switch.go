package power

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"pando/internal/fleet"
)

// Action is one switching of a node.
type Action string

// The actions.
const (
	On     Action = "on"
	Off    Action = "off"   // the operating system is asked to shut down; with Force the current is cut
	Cycle  Action = "cycle" // off and on without asking; what is off is switched on
	Status Action = "status"
)

// State is whether a node has power.
type State string

// The states.
const (
	IsOn    State = "on"
	IsOff   State = "off"
	Unknown State = "unknown"
)

// Request is one action of one node.
type Request struct {
	Action   Action
	To       fleet.PowerTo
	Node     string
	MACs     []fleet.MAC
	Password string
	Force    bool // of Off
	Network  bool // of On and Cycle: boot from the network this once, whatever the firmware's order says
}

// ErrAgent means that only the node itself can do this: Wake-on-LAN cannot switch off.
var ErrAgent = errors.New("Wake-on-LAN can only switch on")

// ErrNone means that the node has no power method.
var ErrNone = errors.New("its power is none: it is not switched from here")

// Timeout bounds one action. A slow controller takes ten seconds per request, and an action needs several.
const Timeout = 45 * time.Second

// Switch switches nodes.
type Switch struct {
	Links func() ([]netip.AddrPort, error)  // where magic packets go that have no address of their own
	Find  func(name string) (string, error) // the path of a program that may be run
}

// Do performs one action. The state is the one before the action; Status changes nothing.
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

// step is what a controller is asked to do.
type step string

const (
	nothing  step = ""
	powerOn  step = "on"
	shutDown step = "shut down" // by the operating system
	cut      step = "cut"
	restart  step = "restart" // without asking
)

// decide is what an action comes to in a state.
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
