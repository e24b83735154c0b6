package api

import (
	"context"
	"net/url"

	"pando/internal/fleet"
)

// Class is a hardware class as the API shows it.
type Class struct {
	fleet.Class
	Nodes []string `json:"nodes"` // adopted nodes whose last report matches the class
}

// ClassList answers GET /v1/classes.
type ClassList struct {
	Classes []Class `json:"classes"`
}

// ClassSet is the body of PATCH /v1/classes/{name}. A nil field stays as it is.
type ClassSet struct {
	DryRun     bool         `json:"dry_run,omitempty"`
	Match      *fleet.Match `json:"match,omitempty"` // replaces the whole match
	KernelArgs *[]string    `json:"kernel_args,omitempty"`
}

// ClassChange answers PATCH /v1/classes/{name}: the changes, and the nodes whose next boot differs.
type ClassChange struct {
	DryRun bool     `json:"dry_run"`
	Fields []string `json:"fields"`
	Nodes  []string `json:"nodes"` // adopted nodes whose last report matches the class
}

// Classes lists all hardware classes.
func (c *Client) Classes(ctx context.Context) ([]Class, error) {
	l, err := get[ClassList](ctx, c, "/v1/classes", nil)
	return l.Classes, err
}

// Class returns one hardware class.
func (c *Client) Class(ctx context.Context, name string) (Class, error) {
	return get[Class](ctx, c, "/v1/classes/"+url.PathEscape(name), nil)
}

// CreateClass creates a hardware class.
func (c *Client) CreateClass(ctx context.Context, class fleet.Class) (Class, error) {
	return ask[Class](ctx, c, "POST", "/v1/classes", class)
}

// SetClass changes a hardware class.
func (c *Client) SetClass(ctx context.Context, name string, s ClassSet) (ClassChange, error) {
	return ask[ClassChange](ctx, c, "PATCH", "/v1/classes/"+url.PathEscape(name), s)
}

// DeleteClass removes a hardware class. Its nodes boot without its arguments from then on.
func (c *Client) DeleteClass(ctx context.Context, name string) error {
	return c.call(ctx, "DELETE", "/v1/classes/"+url.PathEscape(name), nil, nil, nil)
}
