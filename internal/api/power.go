package api

import (
	"context"
	"net/url"
	"time"

	"pando/internal/fleet"
)

// PowerAction is an action on a node's power.
type PowerAction string

// The actions. Wake switches on a node that should be on and is silent, as after a power cut. A node that already has
// power is switched off and on.
const (
	PowerOn     PowerAction = "on"
	PowerOff    PowerAction = "off"
	PowerCycle  PowerAction = "cycle"
	PowerStatus PowerAction = "status"
	PowerWake   PowerAction = "wake"
	PowerReboot PowerAction = "reboot" // done by the node itself, through its firmware
	PowerKexec  PowerAction = "kexec"  // done by the node itself, without firmware

	PowerSoftReboot PowerAction = "soft-reboot" // done by the node itself, without firmware and kernel
	PowerStage      PowerAction = "stage"       // fetch what the next boot needs, and keep running
	PowerAuto       PowerAction = "auto"        // the shortest of reboot, kexec and soft-reboot that the changes allow
)

// BootMethod returns the boot method of an action that reboots a node.
func (a PowerAction) BootMethod() (fleet.BootMethod, bool) {
	switch a {
	case PowerReboot, PowerKexec, PowerSoftReboot, PowerAuto:
		return fleet.BootMethod(a), true
	}
	return "", false
}

// PowerDo is the body of POST /v1/nodes/{name}/power.
type PowerDo struct {
	Action  PowerAction `json:"action"`
	Force   bool        `json:"force,omitempty"`   // for off: cut the power without a shutdown by the operating system
	Network bool        `json:"network,omitempty"` // for on and cycle: boot from the network this once (Redfish, IPMI)
	DryRun  bool        `json:"dry_run,omitempty"`
}

// PowerDone answers POST /v1/nodes/{name}/power.
type PowerDone struct {
	Node   string            `json:"node"`
	Method fleet.PowerMethod `json:"method"`
	State  string            `json:"state"`         // state before the action: "on", "off", "unknown"
	Did    string            `json:"did,omitempty"` // what was done or would be; "": nothing
	DryRun bool              `json:"dry_run,omitempty"`
}

// PowerView describes how a node is switched on and off.
type PowerView struct {
	Node     string            `json:"node"`
	Method   fleet.PowerMethod `json:"method"`
	Address  string            `json:"address,omitempty"`
	User     string            `json:"user,omitempty"`
	Password bool              `json:"password"` // the node or its group has a stored password
	Problem  string            `json:"problem,omitempty"`

	Wanted   string        `json:"wanted,omitempty"` // "on", "off"; "": neither an order nor hours
	WantedBy string        `json:"wanted_by,omitempty"`
	Quiet    time.Duration `json:"quiet,omitempty"` // time since its last packet or report; 0: there was none
	GivenUp  bool          `json:"given_up"`        // --recover would switch it on
}

// PowerList answers GET /v1/power.
type PowerList struct {
	Nodes []PowerView `json:"nodes"`
}

// PowerPassword is the body of PUT /v1/nodes/{name}/password and PUT /v1/groups/{name}/password. The server never
// returns it.
type PowerPassword struct {
	Password string `json:"password"` // "": removes the password
}

// Power lists how the selected nodes are switched on and off.
func (c *Client) Power(ctx context.Context, selection string) ([]PowerView, error) {
	l, err := get[PowerList](ctx, c, "/v1/power", params("select", selection))
	return l.Nodes, err
}

// SwitchNode performs one action on one node.
func (c *Client) SwitchNode(ctx context.Context, name string, p PowerDo) (PowerDone, error) {
	return ask[PowerDone](ctx, c, "POST", "/v1/nodes/"+url.PathEscape(name)+"/power", p)
}

// SetNodePassword stores the password of a node's management controller.
func (c *Client) SetNodePassword(ctx context.Context, name, password string) error {
	return c.call(ctx, "PUT", "/v1/nodes/"+url.PathEscape(name)+"/password", nil, PowerPassword{password}, nil)
}

// SetGroupPassword stores the password of the management controllers of a group's nodes.
func (c *Client) SetGroupPassword(ctx context.Context, name, password string) error {
	return c.call(ctx, "PUT", "/v1/groups/"+url.PathEscape(name)+"/password", nil, PowerPassword{password}, nil)
}
