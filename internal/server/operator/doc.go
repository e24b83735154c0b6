// Package operator answers what people and their programs ask of the fleet's declared side: nodes, groups, hardware
// classes, config files, secrets, whole declarations of a fleet, boots with their events, and what a reboot would
// change.
//
// It owns no state: all of it is in the registry. The server's API calls it. It must never talk to a node but
// through package nodecommand, and never change the registry in a dry run.
package operator
