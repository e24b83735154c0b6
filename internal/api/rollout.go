package api

import (
	"context"
	"net/url"

	"pando/internal/fleet"
)

// Rollout is a rollout as the API shows it.
type Rollout struct {
	fleet.Rollout
	DryRun bool                       `json:"dry_run,omitempty"` // it was not begun
	Phases map[fleet.RolloutPhase]int `json:"phases"`            // nodes by phase
}

// RolloutList answers GET /v1/rollouts: newest first, without their nodes.
type RolloutList struct {
	Rollouts []Rollout `json:"rollouts"`
}

// RolloutStart is the body of POST /v1/rollouts.
type RolloutStart struct {
	Group  string            `json:"group"`
	Image  fleet.Ref         `json:"image"`
	Plan   fleet.RolloutPlan `json:"plan"` // what it does not say is as fleet.RolloutPlan.WithDefaults
	DryRun bool              `json:"dry_run,omitempty"`
}

// NodeDiff is what a reboot would change of a node.
type NodeDiff struct {
	Node    string       `json:"node"`
	Running fleet.Digest `json:"running,omitempty"` // "": it is not up
	Desired fleet.Digest `json:"desired,omitempty"` // "": nothing resolves
	Changes bool         `json:"changes"`           // a reboot would change what follows

	KernelWas   string   `json:"kernel_was,omitempty"` // releases, when they differ
	KernelIs    string   `json:"kernel_is,omitempty"`
	ArgsGone    []string `json:"args_gone,omitempty"` // kernel arguments
	ArgsNew     []string `json:"args_new,omitempty"`
	Drivers     bool     `json:"drivers,omitempty"` // other driver files
	Root        bool     `json:"root,omitempty"`    // another root file system
	RootFetches int64    `json:"root_fetches,omitempty"`

	// extensions that the next boot gets and the node has not, "NAME DIGEST"
	ExtensionsNew  []string `json:"extensions_new,omitempty"`
	ExtensionsGone []string `json:"extensions_gone,omitempty"` // those that it has, and that the next boot does not get

	ConfigOld  []string `json:"config_old,omitempty"`  // config files that differ; `node sync` brings them before
	ConfigGone []string `json:"config_gone,omitempty"` // those that it does not get any more

	Method    fleet.BootMethod `json:"method,omitempty"`     // by which the node would come there, as `auto` chooses
	MethodWhy string           `json:"method_why,omitempty"` // why by this one

	Packages []PackageChange `json:"packages,omitempty"`
	Problem  string          `json:"problem,omitempty"` // why packages and bytes are not told
}

// NodeDiffList answers GET /v1/diff.
type NodeDiffList struct {
	Nodes []NodeDiff `json:"nodes"`
}

// Rollouts lists rollouts, newest first; of one group unless it is "".
func (c *Client) Rollouts(ctx context.Context, group string) ([]Rollout, error) {
	l, err := get[RolloutList](ctx, c, "/v1/rollouts", params("group", group))
	return l.Rollouts, err
}

// Rollout shows one rollout with its nodes.
func (c *Client) Rollout(ctx context.Context, id string) (Rollout, error) {
	return get[Rollout](ctx, c, rolloutPath(id, ""), nil)
}

// StartRollout begins a rollout, or tells how it would go.
func (c *Client) StartRollout(ctx context.Context, s RolloutStart) (Rollout, error) {
	return ask[Rollout](ctx, c, "POST", "/v1/rollouts", s)
}

// PauseRollout has a running rollout take no node more.
func (c *Client) PauseRollout(ctx context.Context, id string) (Rollout, error) {
	return ask[Rollout](ctx, c, "POST", rolloutPath(id, "/pause"), struct{}{})
}

// ResumeRollout has a paused or halted rollout go on.
func (c *Client) ResumeRollout(ctx context.Context, id string) (Rollout, error) {
	return ask[Rollout](ctx, c, "POST", rolloutPath(id, "/resume"), struct{}{})
}

// AbortRollout has a rollout return to the version before.
func (c *Client) AbortRollout(ctx context.Context, id string) (Rollout, error) {
	return ask[Rollout](ctx, c, "POST", rolloutPath(id, "/abort"), struct{}{})
}

// DeleteRollout forgets a rollout that has ended.
func (c *Client) DeleteRollout(ctx context.Context, id string) error {
	return c.call(ctx, "DELETE", rolloutPath(id, ""), nil, nil, nil)
}

func rolloutPath(id, verb string) string { return "/v1/rollouts/" + url.PathEscape(id) + verb }

// DiffNodes reports what a reboot would change of the selected nodes.
func (c *Client) DiffNodes(ctx context.Context, selection string) ([]NodeDiff, error) {
	l, err := get[NodeDiffList](ctx, c, "/v1/diff", params("select", selection))
	return l.Nodes, err
}
