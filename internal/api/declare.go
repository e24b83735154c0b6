package api

import (
	"context"

	"pando/internal/fleet"
)

// Declaration is the desired state of a fleet. Applying it changes what it names. What it does not name stays, unless
// it owns it. GET /v1/fleet returns one, and PUT /v1/fleet applies one.
type Declaration struct {
	Policy  *Policy       `json:"policy,omitempty"`
	Classes []fleet.Class `json:"classes,omitempty"`
	Groups  []fleet.Group `json:"groups,omitempty"`
	Nodes   []NodeDeclare `json:"nodes,omitempty"`
	Owns    Owns          `json:"owns,omitzero"`

	Config  []fleet.ConfigFile `json:"config,omitempty"`
	Secrets []fleet.Secret     `json:"secrets,omitempty"` // names and scopes, without values
}

// NodeDeclare is one node of a declaration. Without MACs the node keeps its present ones. Without a serial number it
// keeps the one that it reported.
type NodeDeclare struct {
	NodeCreate
	Only []string `json:"only,omitempty"` // names of the fields that are declared; none: all
}

// Owns lists the kinds of things that a declaration owns: with prune, owned things that it does not name are deleted.
// The default group and discovered nodes are never deleted.
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
	// Plan of an earlier dry run: the request is refused if it would do anything else; "": no check
	Plan string `json:"plan,omitempty"`
}

// Applied answers PUT /v1/fleet: the changes that were made or, in a dry run, would be.
type Applied struct {
	DryRun bool        `json:"dry_run"`
	Plan   string      `json:"plan"` // identifies these steps
	Steps  []ApplyStep `json:"steps"`
	Notes  []string    `json:"notes,omitempty"` // what stays although a tag that is declared names something else now
}

// ApplyStep is the change of one declared or owned thing.
type ApplyStep struct {
	Kind   string   `json:"kind"` // "policy", "class", "group", "node", "config file", "secret"
	Name   string   `json:"name,omitempty"`
	Action Action   `json:"action"`
	Fields []string `json:"fields,omitempty"` // of an update: "group: default -> lab"
}

// Action is the kind of a change.
type Action string

// The actions.
const (
	Creates Action = "create"
	Alters  Action = "change"
	Deletes Action = "delete"
)

// ApplyFleet applies a declaration, all or nothing.
func (c *Client) ApplyFleet(ctx context.Context, a Apply) (Applied, error) {
	return ask[Applied](ctx, c, "PUT", "/v1/fleet", a)
}

// ExportFleet returns the present fleet as a declaration.
func (c *Client) ExportFleet(ctx context.Context) (Declaration, error) {
	return get[Declaration](ctx, c, "/v1/fleet", nil)
}
