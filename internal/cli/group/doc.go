// Package group has the commands `group` and `class`: what the nodes of a group boot and how, and classes of
// hardware.
//
// It turns flags into calls of the HTTP API; the flags of settings come from the settings table. The package cli
// adds the commands to the tree. It must never name a setting itself.
package group
