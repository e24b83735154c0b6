package api

import (
	"context"

	"pando/internal/fleet"
)

// Declaration is what somebody wants a fleet to be. What it names is afterwards as it says; what it does not name
// stays, unless it owns it. It answers GET /v1/fleet, and is what PUT /v1/fleet applies.
type Declaration struct {
	Policy  *Policy       `json:"policy,omitempty"`
	Classes []fleet.Class `json:"classes,omitempty"`
	Groups  []fleet.Group `json:"groups,omitempty"`
	Nodes   []NodeDeclare `json:"nodes,omitempty"`
	Owns    Owns          `json:"owns,omitzero"`

	Config  []fleet.ConfigFile `json:"config,omitempty"`
	Secrets []fleet.Secret     `json:"secrets,omitempty"` // names and for whom they are; values are no part of it
}

// NodeDeclare is one node of a declaration. Without MACs it keeps those that it has, and without a serial number
// the one that the machine reported.
type NodeDeclare struct {
	NodeCreate
	Only []string `json:"only,omitempty"` // names of the fields that are declared; none: all
}

// Owns is what a declaration is the whole truth about: what of it the declaration does not name is deleted when it
// is applied with prune. The default group, and nodes that nobody adopted, are never deleted.
type Owns struct {
	Nodes   string   `json:"nodes,omitempty"` // a node set
	Groups  []string `json:"groups,omitempty"`
	Classes []string `json:"classes,omitempty"`
	Config  []string `json:"config,omitempty"` // scopes of config files, or patterns: "group:lab", "group:*"
}

// Apply is the body of PUT /v1/fleet.
type Apply struct {
	Declaration
	Prune  bool `json:"prune,omitempty"`
	DryRun bool `json:"dry_run,omitempty"`
	// of an earlier dry run: what would be done now must be the same; "": anything
	Plan string `json:"plan,omitempty"`
}

// Applied answers PUT /v1/fleet: what was done, or would be.
type Applied struct {
	DryRun bool        `json:"dry_run"`
	Plan   string      `json:"plan"` // names these steps
	Steps  []ApplyStep `json:"steps"`
}

// ApplyStep is what happens to one thing that is declared, or owned.
type ApplyStep struct {
	Kind   string   `json:"kind"` // "policy", "class", "group", "node", "config file", "secret"
	Name   string   `json:"name,omitempty"`
	Action Action   `json:"action"`
	Fields []string `json:"fields,omitempty"` // of a change: "group: default -> lab"
}

// Action is what is done to a thing.
type Action string

// The actions.
const (
	Creates Action = "create"
	Alters  Action = "change"
	Deletes Action = "delete"
)

// ApplyFleet makes the fleet what is declared, all or nothing.
func (c *Client) ApplyFleet(ctx context.Context, a Apply) (Applied, error) {
	return ask[Applied](ctx, c, "PUT", "/v1/fleet", a)
}

// ExportFleet is the declaration of the fleet as it is.
func (c *Client) ExportFleet(ctx context.Context) (Declaration, error) {
	return get[Declaration](ctx, c, "/v1/fleet", nil)
}
