// Package fleet has the nouns of Pando: node, group, settings, class, tag, assignment, lease, rollout plan, node set,
// and the validation of each. It owns no state. Every other package may import it; it imports none of Pando's. It must
// never do I/O or read a clock.
//
// A discovered machine was seen on the network and is not yet accepted; an adopted machine is accepted and becomes a
// node. A node is in exactly one group, and a group has one image that its nodes should run. A version of an image is
// immutable and named by its digest.
package fleet
