// Package fleet holds the nouns of Pando: nodes, groups, tags, assignments, leases and the names that
// address them. It does no I/O and reads no clock; every other package may import it and it imports none
// of ours.
//
// The words. A node is a managed machine. It is known by its MACs and its key is a name. A MAC that was
// seen but that nobody accepted is a discovered node; an accepted one is adopted. A node is in exactly one
// group, and a group has one desired image version. A tag is a movable name of a version; a version is
// immutable and named by its digest. An assignment is what the server tells one boot of one node to run.
// A lease is a DHCP address and nothing else.
package fleet
