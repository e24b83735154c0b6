// Package power switches nodes on and off: by Wake-on-LAN, by Redfish or IPMI of a management controller, or by a
// program.
//
// The words. A switch does one action of one request: on, off, cycle or status. What it finds is a state: on, off,
// or unknown, which is all that Wake-on-LAN ever knows. An action that is done already is no failure: to switch on
// what is on does nothing.
//
// The package knows nothing of who asks and when; the server decides about timetables and sweeps (fleet.Timetable,
// Sweep here), and has nodes that can only be woken shut down by their agents.
package power
