package registry

import (
	"context"
	"encoding/json"
	"slices"

	"pando/internal/fleet"
)

type limitKey struct{}

// Within returns a context that limits the registry to some groups: other groups, their nodes, boots, rollouts and
// history can be neither read nor changed. No groups mean no limit. Code that fills a cache for everybody uses Whole.
func Within(ctx context.Context, groups []string) context.Context {
	if len(groups) == 0 {
		return ctx
	}
	return context.WithValue(ctx, limitKey{}, groups)
}

// Whole returns ctx without the limit of Within.
func Whole(ctx context.Context) context.Context {
	return context.WithValue(ctx, limitKey{}, []string(nil))
}

// LimitOf returns the groups of Within, nil for all.
func LimitOf(ctx context.Context) []string {
	groups, _ := ctx.Value(limitKey{}).([]string)
	return groups
}

// Limited reports whether this transaction is limited to some groups.
func (t *Tx) Limited() bool { return LimitOf(t.ctx) != nil }

// sees reports whether the caller may see a group.
func (t *Tx) sees(group string) bool {
	groups := LimitOf(t.ctx)
	return groups == nil || slices.Contains(groups, group)
}

// seen returns a node, or ErrNotFound if the caller may not see it.
func (t *Tx) seen(n fleet.Node, err error) (fleet.Node, error) {
	if err == nil && !t.sees(n.Group) {
		return fleet.Node{}, notFound("node", n.Name)
	}
	return n, err
}

// called returns a name for a node that the caller may know.
func (t *Tx) called(n fleet.Node) string {
	if !t.sees(n.Group) {
		return "another node"
	}
	return "node " + n.Name
}

// limit returns a condition on a column with names of groups, and its argument.
func (t *Tx) limit(column string) (clause, arg string) { return limitOn(t.ctx, column) }

func limitOn(ctx context.Context, column string) (clause, arg string) {
	groups := LimitOf(ctx)
	if groups == nil {
		return ` AND ? = ''`, ""
	}
	b, _ := json.Marshal(groups) // strings can always be encoded
	return ` AND ` + column + ` IN (SELECT value FROM json_each(?))`, string(b)
}

// limitNodes returns a condition on a column with names of nodes.
func (t *Tx) limitNodes(column string) (clause, arg string) {
	if !t.Limited() {
		return t.limit("")
	}
	clause, arg = t.limit("grp")
	return ` AND ` + column + ` IN (SELECT name FROM nodes WHERE true` + clause + `)`, arg
}

// seesScope reports whether the caller may read what applies to a scope. Everybody may read what applies to all nodes
// or to a class.
func (t *Tx) seesScope(s fleet.Scope) bool {
	if s.Kind != fleet.ForGroup && s.Kind != fleet.ForNode {
		return true
	}
	return t.HasScope(s) == nil
}

// mayChange returns ErrBeyond if a scope includes nodes outside of the caller's groups.
func (t *Tx) mayChange(s fleet.Scope) error {
	if t.Limited() && s.Kind != fleet.ForGroup && s.Kind != fleet.ForNode {
		return beyond("what is for " + s.String())
	}
	return t.HasScope(s)
}
