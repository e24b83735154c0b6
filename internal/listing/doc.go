// Package listing has tables and lines that several commands print: groups, rollouts, boots, events and the state
// of DHCP.
//
// It turns values of the HTTP API into text. The commands call it. It must never call the server.
package listing
