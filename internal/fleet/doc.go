// Package fleet has the nouns of Pando: node, group, settings, class, tag, assignment, lease, rollout plan, node set,
// and the validation of each.
//
// It owns no state. Every other package may import it; it imports none of Pando's. It must never do I/O or read a
// clock.
//
// A node is a managed machine, known by its MAC addresses; its name is its key. A discovered machine was seen on the
// network and is not yet accepted; an adopted machine is accepted. A node is in exactly one group, and a group has one
// image that its nodes should run. A version of an image is immutable and named by its digest; a tag is a movable name
// of a version. Settings belong to a group, and a node may override each: settings.go has their table. An assignment
// tells one boot of one node what to run. A lease is a DHCP address and nothing else.
package fleet
