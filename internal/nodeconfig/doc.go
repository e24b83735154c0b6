// Package nodeconfig renders the config files of nodes: those that every node has, and those that an operator declared,
// with the secrets that a boot may have.
//
// It owns nothing but the site's keys, which it is given. Rooms that register nodes, sync config files or show what a
// node would get call it. It must never open a secret for a boot whose claim does not hold.
package nodeconfig
