// Package nodeauth tells for which boot a request of a node may speak, by the session or the token that it carries.
//
// It owns nothing; it reads boots in the registry. Every handler that takes something from a node calls it first.
// It must never accept an address, a MAC or a name as proof.
package nodeauth
