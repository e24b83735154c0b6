package api

import (
	"context"
	"net/url"

	"pando/internal/fleet"
)

// Rollout is a rollout as the API shows it.
type Rollout struct {
	fleet.Rollout
	DryRun bool                       `json:"dry_run,omitempty"` // true: the rollout was not started
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
	Plan   fleet.RolloutPlan `json:"plan"` // empty fields get the defaults of fleet.RolloutPlan.WithDefaults
	DryRun bool              `json:"dry_run,omitempty"`
}

// NodeDiff is what a reboot would change on a node.
type NodeDiff struct {
	Node    string       `json:"node"`
	Running fleet.Digest `json:"running,omitempty"` // "": it is not up
	Desired fleet.Digest `json:"desired,omitempty"` // "": none can be resolved
	Changes bool         `json:"changes"`           // true: the next boot differs, as the fields below say

	KernelWas   string   `json:"kernel_was,omitempty"` // releases, when they differ
	KernelIs    string   `json:"kernel_is,omitempty"`
	ArgsGone    []string `json:"args_gone,omitempty"` // kernel arguments
	ArgsNew     []string `json:"args_new,omitempty"`
	Drivers     bool     `json:"drivers,omitempty"` // other driver files
	Root        bool     `json:"root,omitempty"`    // another root file system
	RootFetches int64    `json:"root_fetches,omitempty"`

	// extensions that the next boot gets and the node lacks, "NAME DIGEST"
	ExtensionsNew  []string `json:"extensions_new,omitempty"`
	ExtensionsGone []string `json:"extensions_gone,omitempty"` // those that the node has and the next boot does not get

	ConfigOld  []string `json:"config_old,omitempty"`  // config files that differ; `node sync` updates them before
	ConfigGone []string `json:"config_gone,omitempty"` // config files that the next boot does not get

	Method    fleet.BootMethod `json:"method,omitempty"`     // boot method that `auto` would choose
	MethodWhy string           `json:"method_why,omitempty"` // why this method

	Packages []PackageChange `json:"packages,omitempty"`
	Problem  string          `json:"problem,omitempty"` // why packages and bytes are unknown
}

// NodeDiffList answers GET /v1/diff.
type NodeDiffList struct {
	Nodes []NodeDiff `json:"nodes"`
}

// Rollouts lists rollouts, newest first. An empty group means all groups.
func (c *Client) Rollouts(ctx context.Context, group string) ([]Rollout, error) {
	l, err := get[RolloutList](ctx, c, "/v1/rollouts", params("group", group))
	return l.Rollouts, err
}

// Rollout returns one rollout with its nodes.
func (c *Client) Rollout(ctx context.Context, id string) (Rollout, error) {
	return get[Rollout](ctx, c, rolloutPath(id, ""), nil)
}

// StartRollout starts a rollout or, in a dry run, reports how it would proceed.
func (c *Client) StartRollout(ctx context.Context, s RolloutStart) (Rollout, error) {
	return ask[Rollout](ctx, c, "POST", "/v1/rollouts", s)
}

// PauseRollout stops a running rollout from beginning further nodes.
func (c *Client) PauseRollout(ctx context.Context, id string) (Rollout, error) {
	return ask[Rollout](ctx, c, "POST", rolloutPath(id, "/pause"), struct{}{})
}

// ResumeRollout resumes a paused or halted rollout.
func (c *Client) ResumeRollout(ctx context.Context, id string) (Rollout, error) {
	return ask[Rollout](ctx, c, "POST", rolloutPath(id, "/resume"), struct{}{})
}

// AbortRollout makes a rollout go back to the previous version.
func (c *Client) AbortRollout(ctx context.Context, id string) (Rollout, error) {
	return ask[Rollout](ctx, c, "POST", rolloutPath(id, "/abort"), struct{}{})
}

// DeleteRollout deletes a rollout that has ended.
func (c *Client) DeleteRollout(ctx context.Context, id string) error {
	return c.call(ctx, "DELETE", rolloutPath(id, ""), nil, nil, nil)
}

func rolloutPath(id, verb string) string { return "/v1/rollouts/" + url.PathEscape(id) + verb }

// DiffNodes reports what a reboot would change on the selected nodes.
func (c *Client) DiffNodes(ctx context.Context, selection string) ([]NodeDiff, error) {
	l, err := get[NodeDiffList](ctx, c, "/v1/diff", params("select", selection))
	return l.Nodes, err
}
