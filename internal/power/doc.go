// Package power switches nodes on and off: by Wake-on-LAN, by the Redfish or IPMI of a management controller, or by a
// program.
//
// A switch performs one action: on, off, cycle or status. A state is on, off or unknown; Wake-on-LAN only ever knows
// unknown. An action whose result is already there is no failure.
//
// It owns the protocols. The server's room power calls it; timetables and batches (Sweep) are decided purely here and
// there. It must never know who requested an action, and never decide when to act.
package power
