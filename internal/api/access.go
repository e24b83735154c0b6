package api

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"pando/internal/fleet"
)

// User is a person who may log in.
type User struct {
	Name string     `json:"name"`
	Role fleet.Role `json:"role"`
	// the OpenID provider that authenticates the user; "": the user has a password here
	Issuer  string    `json:"issuer,omitempty"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used,omitzero"` // last login; zero: never
}

// UserList answers GET /v1/users.
type UserList struct {
	Users []User `json:"users"`
}

// UserCreate is the body of POST /v1/users.
type UserCreate struct {
	Name     string     `json:"name"`
	Role     fleet.Role `json:"role,omitempty"` // "": viewer
	Password string     `json:"password"`       // 8 to 1024 bytes
}

// UserSet is the body of PATCH /v1/users/{name}. A nil field stays as it is.
type UserSet struct {
	Role     *fleet.Role `json:"role,omitempty"`
	Password *string     `json:"password,omitempty"`
}

// Audited is one line of the audit log: who requested which change, and its result.
type Audited struct {
	Seq    int64           `json:"seq"`
	At     time.Time       `json:"at"`
	Who    string          `json:"who"`            // "user desk", "token ci", "this machine"
	From   string          `json:"from,omitempty"` // address; absent: the socket
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body,omitempty"` // the request body, without secrets
	Status int             `json:"status"`         // HTTP status of the answer
	Error  string          `json:"error,omitempty"`
}

// AuditList answers GET /v1/audit, newest first.
type AuditList struct {
	Audit []Audited `json:"audit"`
}

// Users lists the people who may log in.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	l, err := get[UserList](ctx, c, "/v1/users", nil)
	return l.Users, err
}

// CreateUser adds a person who may log in.
func (c *Client) CreateUser(ctx context.Context, u UserCreate) (User, error) {
	return ask[User](ctx, c, "POST", "/v1/users", u)
}

// SetUser changes the role or password of a user. A new password ends all sessions of the user.
func (c *Client) SetUser(ctx context.Context, name string, set UserSet) (User, error) {
	return ask[User](ctx, c, "PATCH", "/v1/users/"+url.PathEscape(name), set)
}

// DeleteUser removes a user and ends the user's sessions.
func (c *Client) DeleteUser(ctx context.Context, name string) error {
	return c.call(ctx, "DELETE", "/v1/users/"+url.PathEscape(name), nil, nil, nil)
}

// Audit lists changes, newest first: those with a number below before (0: from the newest), at most limit (0: the
// server's default).
func (c *Client) Audit(ctx context.Context, before int64, limit int) ([]Audited, error) {
	q := url.Values{}
	if before > 0 {
		q.Set("before", strconv.FormatInt(before, 10))
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	l, err := get[AuditList](ctx, c, "/v1/audit", q)
	return l.Audit, err
}
