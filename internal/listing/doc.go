// Package listing prints tables and lines that several commands share: groups, rollouts, boots, events and the state
// of DHCP.
//
// It owns no state: it turns values of the HTTP API into text. The commands call it. It must never call the server.
package listing
