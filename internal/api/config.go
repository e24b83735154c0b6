package api

import (
	"context"
	"net/url"

	"pando/internal/fleet"
)

// ConfigList answers GET /v1/config: every declared config file, without content.
type ConfigList struct {
	Files []ConfigFile `json:"files"` // ordered by path; of the files with one path the last one wins
}

// ConfigFile is a declared config file as the API shows it.
type ConfigFile struct {
	fleet.ConfigFile
	Size  int      `json:"size"`  // bytes of its content
	Nodes []string `json:"nodes"` // adopted nodes that get the file
}

// ConfigSet is the body of PUT /v1/config. The config file replaces the one with the same scope and path.
type ConfigSet struct {
	fleet.ConfigFile
	DryRun bool `json:"dry_run,omitempty"`
}

// ConfigDelete is the body of DELETE /v1/config.
type ConfigDelete struct {
	For    fleet.Scope `json:"for"`
	Path   string      `json:"path"`
	DryRun bool        `json:"dry_run,omitempty"`
}

// ConfigChange answers PUT and DELETE of /v1/config: the changes, and the nodes that they affect.
type ConfigChange struct {
	DryRun bool     `json:"dry_run"`
	Fields []string `json:"fields"`
	// nodes whose next boot differs; `node sync` updates them before
	Nodes    []string `json:"nodes"`
	Problems []string `json:"problems,omitempty"` // nodes that boot without the file, and why
}

// NodeConfig answers GET /v1/nodes/{name}/config: the config files that the next boot of a node gets.
type NodeConfig struct {
	Node     string         `json:"node"`
	Files    []RenderedFile `json:"files"`
	Problems []string       `json:"problems,omitempty"` // files that it cannot get, and why
}

// RenderedFile is a config file of one node, without its secrets.
type RenderedFile struct {
	Path    string   `json:"path"`
	From    string   `json:"from"` // scope of the declaration: "group:lab"; "every node"
	Mode    uint32   `json:"mode"`
	Owner   string   `json:"owner,omitempty"` // "": root
	Run     string   `json:"run,omitempty"`
	Secrets []string `json:"secrets,omitempty"` // names of the secrets that it contains
	Content []byte   `json:"content,omitempty"` // with the names of secrets instead of their values
}

// ConfigFiles lists the declared config files, without content.
func (c *Client) ConfigFiles(ctx context.Context) ([]ConfigFile, error) {
	l, err := get[ConfigList](ctx, c, "/v1/config", nil)
	return l.Files, err
}

// ConfigFile returns one declared config file with its content.
func (c *Client) ConfigFile(ctx context.Context, of fleet.Scope, path string) (ConfigFile, error) {
	return get[ConfigFile](ctx, c, "/v1/config/file", url.Values{"for": {of.String()}, "path": {path}})
}

// SetConfigFile declares a config file.
func (c *Client) SetConfigFile(ctx context.Context, s ConfigSet) (ConfigChange, error) {
	return ask[ConfigChange](ctx, c, "PUT", "/v1/config", s)
}

// DeleteConfigFile removes a declared config file. A running node keeps the file until it reboots.
func (c *Client) DeleteConfigFile(ctx context.Context, d ConfigDelete) (ConfigChange, error) {
	return ask[ConfigChange](ctx, c, "DELETE", "/v1/config", d)
}

// NodeConfig returns the config files of a node.
func (c *Client) NodeConfig(ctx context.Context, node string) (NodeConfig, error) {
	return get[NodeConfig](ctx, c, "/v1/nodes/"+url.PathEscape(node)+"/config", nil)
}

// SyncRequest is the body of POST /v1/nodes/sync.
type SyncRequest struct {
	Select string `json:"select"`
	DryRun bool   `json:"dry_run,omitempty"` // only report which files differ
}

// SyncList answers POST /v1/nodes/sync after every node has answered or timed out.
type SyncList struct {
	DryRun bool       `json:"dry_run"`
	Nodes  []NodeSync `json:"nodes"`
}

// NodeSync is the result of one node.
type NodeSync struct {
	Node     string       `json:"node"`
	Off      bool         `json:"off,omitempty"` // the node does not run; its next boot gets the files
	Files    []SyncedFile `json:"files,omitempty"`
	Problems []string     `json:"problems,omitempty"` // files that the server cannot render for it
	Error    string       `json:"error,omitempty"`    // why the result is unknown
	Hint     string       `json:"hint,omitempty"`
}

// SyncNodes updates the config files of running nodes to what their next boot would get, and runs the commands of
// changed files. It returns when every node has answered or timed out, after about a minute.
func (c *Client) SyncNodes(ctx context.Context, s SyncRequest) ([]NodeSync, error) {
	l, err := ask[SyncList](ctx, c, "POST", "/v1/nodes/sync", s)
	return l.Nodes, err
}
