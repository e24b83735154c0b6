package api

import (
	"context"
	"encoding/json"
	"net/netip"
	"net/url"
	"strconv"

	"pando/internal/fleet"
)

// One method for each route. Every method returns *Error if the server refuses, and *UnreachableError if no answer
// came. An empty selection means every node in reading calls and no node in writing calls.

// Status reports the state of the site.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "/v1/status", nil)
}

// Nodes lists the selected nodes.
func (c *Client) Nodes(ctx context.Context, selection string) ([]Node, error) {
	l, err := get[NodeList](ctx, c, "/v1/nodes", params("select", selection))
	return l.Nodes, err
}

// Node returns one node.
func (c *Client) Node(ctx context.Context, name string) (Node, error) {
	return get[Node](ctx, c, "/v1/nodes/"+url.PathEscape(name), nil)
}

// CreateNode records a node before its machine was seen.
func (c *Client) CreateNode(ctx context.Context, n NodeCreate) (Node, error) {
	return ask[Node](ctx, c, "POST", "/v1/nodes", n)
}

// SetNodes changes all selected nodes, or none if one change is refused.
func (c *Client) SetNodes(ctx context.Context, s NodeSet) (Changes, error) {
	return ask[Changes](ctx, c, "PATCH", "/v1/nodes", s)
}

// DeleteNodes deletes the selected nodes. A running node keeps running.
func (c *Client) DeleteNodes(ctx context.Context, selection string, dryRun bool) (Changes, error) {
	var out Changes
	q := params("select", selection)
	if dryRun {
		q.Set("dry_run", "true")
	}
	err := c.call(ctx, "DELETE", "/v1/nodes", q, nil, &out)
	return out, err
}

// AdoptNodes accepts discovered nodes.
func (c *Client) AdoptNodes(ctx context.Context, a NodeAdopt) (Changes, error) {
	return ask[Changes](ctx, c, "POST", "/v1/nodes/adopt", a)
}

// Groups lists all groups.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	l, err := get[GroupList](ctx, c, "/v1/groups", nil)
	return l.Groups, err
}

// Group returns one group.
func (c *Client) Group(ctx context.Context, name string) (Group, error) {
	return get[Group](ctx, c, "/v1/groups/"+url.PathEscape(name), nil)
}

// CreateGroup creates a group.
func (c *Client) CreateGroup(ctx context.Context, g fleet.Group) (Group, error) {
	return ask[Group](ctx, c, "POST", "/v1/groups", g)
}

// SetGroup changes a group.
func (c *Client) SetGroup(ctx context.Context, name string, s GroupSet) (GroupChange, error) {
	return ask[GroupChange](ctx, c, "PATCH", "/v1/groups/"+url.PathEscape(name), s)
}

// DeleteGroup removes a group that has no members.
func (c *Client) DeleteGroup(ctx context.Context, name string) error {
	return c.call(ctx, "DELETE", "/v1/groups/"+url.PathEscape(name), nil, nil, nil)
}

// Images lists all images.
func (c *Client) Images(ctx context.Context) ([]Image, error) {
	l, err := get[ImageList](ctx, c, "/v1/images", nil)
	return l.Images, err
}

// Image returns one image.
func (c *Client) Image(ctx context.Context, name string) (Image, error) {
	return get[Image](ctx, c, "/v1/images/"+url.PathEscape(name), nil)
}

// ImageTrace reports what boots of a version read. ref is NAME, NAME:TAG or NAME@sha256:...
func (c *Client) ImageTrace(ctx context.Context, ref fleet.Ref) (ImageTrace, error) {
	name, _, _, err := ref.Split()
	if err != nil {
		return ImageTrace{}, NewError(BadRequest, err.Error(), "")
	}
	return get[ImageTrace](ctx, c, "/v1/images/"+url.PathEscape(name)+"/trace", params("ref", string(ref)))
}

// ImageDiff reports what a node that has version from fetches for version to.
func (c *Client) ImageDiff(ctx context.Context, from, to fleet.Ref) (ImageDiff, error) {
	name, _, _, err := to.Split()
	if err != nil {
		return ImageDiff{}, NewError(BadRequest, err.Error(), "")
	}
	q := params("from", string(from))
	q.Set("to", string(to))
	return get[ImageDiff](ctx, c, "/v1/images/"+url.PathEscape(name)+"/diff", q)
}

// ImageHistory reports the versions that an image had, their origins, and how its tags moved.
func (c *Client) ImageHistory(ctx context.Context, name string) (ImageHistory, error) {
	return get[ImageHistory](ctx, c, "/v1/images/"+url.PathEscape(name)+"/history", nil)
}

// ImageSBOM returns the bill of materials of a version, SPDX 2.3 in JSON.
func (c *Client) ImageSBOM(ctx context.Context, ref fleet.Ref) (json.RawMessage, error) {
	name, _, _, err := ref.Split()
	if err != nil {
		return nil, NewError(BadRequest, err.Error(), "")
	}
	return get[json.RawMessage](ctx, c, "/v1/images/"+url.PathEscape(name)+"/sbom", params("ref", string(ref)))
}

// ImageSlim reports which files of a version no boot read, and what slows its start.
func (c *Client) ImageSlim(ctx context.Context, ref fleet.Ref) (ImageSlim, error) {
	name, _, _, err := ref.Split()
	if err != nil {
		return ImageSlim{}, NewError(BadRequest, err.Error(), "")
	}
	return get[ImageSlim](ctx, c, "/v1/images/"+url.PathEscape(name)+"/slim", params("ref", string(ref)))
}

// DeleteVersion removes an unused version from an image.
func (c *Client) DeleteVersion(ctx context.Context, name string, v fleet.Digest) error {
	return c.call(
		ctx,
		"DELETE",
		"/v1/images/"+url.PathEscape(name)+"/versions/"+url.PathEscape(string(v)),
		nil,
		nil,
		nil,
	)
}

// AddVersion adds a version of the store to an image.
func (c *Client) AddVersion(ctx context.Context, name string, v VersionAdd) (Image, error) {
	return ask[Image](ctx, c, "POST", "/v1/images/"+url.PathEscape(name)+"/versions", v)
}

// SetTag points a tag at a version.
func (c *Client) SetTag(ctx context.Context, name, tag string, t TagSet) (TagChange, error) {
	return ask[TagChange](ctx, c, "PUT", tagPath(name, tag), t)
}

// DeleteTag removes a tag that no group or node follows.
func (c *Client) DeleteTag(ctx context.Context, name, tag string) error {
	return c.call(ctx, "DELETE", tagPath(name, tag), nil, nil, nil)
}

func tagPath(name, tag string) string {
	return "/v1/images/" + url.PathEscape(name) + "/tags/" + url.PathEscape(tag)
}

// StoreUsage reports how the space of the store is used.
func (c *Client) StoreUsage(ctx context.Context) (StoreUsage, error) {
	return get[StoreUsage](ctx, c, "/v1/store/usage", nil)
}

// CollectStore removes unused versions, and objects that no version names.
func (c *Client) CollectStore(ctx context.Context, s StoreCollect) (StoreCollected, error) {
	return ask[StoreCollected](ctx, c, "POST", "/v1/store/collect", s)
}

// FailedBoots lists the latest boots of nodes that have a fault, each with its Fault, the newest fault first.
func (c *Client) FailedBoots(ctx context.Context, nodes string, limit int) ([]Boot, error) {
	q := url.Values{"select": {nodes}}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	l, err := get[BootList](ctx, c, "/v1/boots/failed", q)
	return l.Boots, err
}

// Boots lists boots of the selected nodes, newest first; at most limit of them, 0 for the server's default.
func (c *Client) Boots(ctx context.Context, selection string, limit int) ([]Boot, error) {
	q := params("select", selection)
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	l, err := get[BootList](ctx, c, "/v1/boots", q)
	return l.Boots, err
}

// Boot returns one boot with its timeline.
func (c *Client) Boot(ctx context.Context, id fleet.BootID) (BootDetail, error) {
	return get[BootDetail](ctx, c, "/v1/boots/"+url.PathEscape(string(id)), nil)
}

// NodeBoot returns the latest boot of a node.
func (c *Client) NodeBoot(ctx context.Context, node string) (BootDetail, error) {
	return get[BootDetail](ctx, c, "/v1/nodes/"+url.PathEscape(node)+"/boot", nil)
}

// Events lists events after a sequence number, oldest first; at most limit of them, 0 for the server's default.
// A negative number means the newest ones.
func (c *Client) Events(ctx context.Context, after int64, limit int) (EventList, error) {
	q := params("after", strconv.FormatInt(after, 10))
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return get[EventList](ctx, c, "/v1/events", q)
}

// Tokens lists the tokens, without their secrets.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	l, err := get[TokenList](ctx, c, "/v1/tokens", nil)
	return l.Tokens, err
}

// CreateToken creates a token. Only this answer has its secret.
func (c *Client) CreateToken(ctx context.Context, t TokenCreate) (NewToken, error) {
	return ask[NewToken](ctx, c, "POST", "/v1/tokens", t)
}

// DeleteToken revokes a token at once.
func (c *Client) DeleteToken(ctx context.Context, name string) error {
	return c.call(ctx, "DELETE", "/v1/tokens/"+url.PathEscape(name), nil, nil, nil)
}

// Leases lists the DHCP leases.
func (c *Client) Leases(ctx context.Context) ([]fleet.Lease, error) {
	l, err := get[LeaseList](ctx, c, "/v1/leases", nil)
	return l.Leases, err
}

// DeleteLease removes a lease, so that another machine may get the address.
func (c *Client) DeleteLease(ctx context.Context, addr netip.Addr) error {
	return c.call(ctx, "DELETE", "/v1/leases/"+addr.String(), nil, nil, nil)
}

// ScrapeTargets lists the booted nodes of a node set ("": all) in the format of Prometheus' HTTP service discovery.
// port is the exporter's; 0: 9100.
func (c *Client) ScrapeTargets(ctx context.Context, nodes string, port int) ([]ScrapeTarget, error) {
	q := url.Values{"select": {nodes}}
	if port != 0 {
		q.Set("port", strconv.Itoa(port))
	}
	return get[[]ScrapeTarget](ctx, c, "/v1/sd", q)
}

// Policy returns how the site treats unknown machines.
func (c *Client) Policy(ctx context.Context) (Policy, error) {
	return get[Policy](ctx, c, "/v1/policy", nil)
}

// SetPolicy changes how the site treats unknown machines. Adopted nodes stay adopted.
func (c *Client) SetPolicy(ctx context.Context, p Policy) (Policy, error) {
	return ask[Policy](ctx, c, "PUT", "/v1/policy", p)
}

func get[T any](ctx context.Context, c *Client, path string, q url.Values) (T, error) {
	var out T
	err := c.call(ctx, "GET", path, q, nil, &out)
	return out, err
}

func ask[T any](ctx context.Context, c *Client, method, path string, in any) (T, error) {
	var out T
	err := c.call(ctx, method, path, nil, in, &out)
	return out, err
}

// params returns a query with one parameter, or an empty query if the value is empty.
func params(name, value string) url.Values {
	q := url.Values{}
	if value != "" {
		q.Set(name, value)
	}
	return q
}
