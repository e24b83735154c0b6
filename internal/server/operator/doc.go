// Package operator is the operator's API for what is declared: nodes, groups, hardware classes, config files, secrets
// and whole declarations of a fleet. It also shows boots with their events, and what a reboot would change.
//
// It owns no state: all of it is in the registry. The server's API calls it. It must never contact a node except
// through package nodecommand, and never change the registry in a dry run.
package operator
