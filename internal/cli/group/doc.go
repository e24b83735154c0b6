// Package group has the commands `group` and `class`: the settings of a group of nodes, and hardware classes.
//
// It turns flags into calls of the HTTP API; the flags of settings come from the settings table. The package cli adds
// the commands to the tree. It must never name a setting itself.
package group
