package httpapi

import (
	"context"
	"net/http"

	"pando/internal/fleet"
)

// Caller identifies who makes a request.
type Caller struct {
	Kind string // "token" or "user"; "": somebody on this machine who may open the socket
	Name string
	Role fleet.Role

	Groups []string // the caller may act on these groups only; none: on all
}

// String names the caller: "user NAME", "token NAME" or "this machine".
func (c Caller) String() string {
	if c.Kind == "" {
		return "this machine"
	}
	return c.Kind + " " + c.Name
}

type callerKey struct{}

// WithCaller returns a context that carries the caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of a request. A request without one came by the unix socket, and may do everything.
func CallerOf(ctx context.Context) Caller {
	if c, ok := ctx.Value(callerKey{}).(Caller); ok {
		return c
	}
	return Caller{Role: fleet.Admin}
}

// CallerName names the caller of a request, for audit log and messages.
func CallerName(r *http.Request) string { return CallerOf(r.Context()).String() }
