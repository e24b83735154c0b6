// Package nodeauth finds the boot that a node's request belongs to, by the session or the token that it carries.
//
// It owns no state; it reads boots in the registry. Every handler of nodes' requests calls it first. It must never
// accept an address, a MAC or a name as proof.
package nodeauth
