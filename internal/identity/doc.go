// Package identity holds who a site is and who its nodes are.
//
// The words. The site key (minisign) signs image versions; nodes trust what it signed. The server key (Ed25519)
// proves the server to nodes and operators: they pin its public half and look at no certificate chain, name or
// date. The secret (32 random bytes) is what the identities of nodes are derived from, so that a node without a
// disk is the same machine after each boot. A token is 256 random bits in text.
//
// Keys are made at the first start and never again: a key file that is damaged or missing beside the others is an
// error, not a reason for a new key, because all nodes would have to be told.
package identity
