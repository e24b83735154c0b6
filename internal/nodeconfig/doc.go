// Package nodeconfig renders the config files of nodes: those that every node gets, and those that an operator
// declared, with their secrets.
//
// It owns no state; it is given the site's keys. Rooms that register nodes, sync config files or show what a node
// would get call it. It must never open a secret for a boot that has not proved which machine it is.
package nodeconfig
