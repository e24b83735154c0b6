// Package access decides who may use the operator's API and the dashboard: tokens, users, logins by password or OpenID
// Connect, roles, the groups that a token is limited to, request limits, and the audit log of changes.
//
// It owns the counters of failed logins and of requests, in memory; users, tokens and the audit log are in the
// registry. The server's wiring protects the routes of all other rooms with it, and the dashboard checks sessions with
// it. It must never pass a request whose role or groups were not checked, and never write a secret into the audit log.
package access
