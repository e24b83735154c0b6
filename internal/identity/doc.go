// Package identity makes, reads and uses the keys of a site, and derives the identities of its nodes from them.
//
// The site key (minisign) signs image versions; nodes trust what it signed. The server key (Ed25519) proves the server
// to nodes and operators: they pin its public half and check no certificate chain, name or date. The secret (32 random
// bytes) derives the host keys and other identities of nodes, so that a diskless node is the same machine after each
// boot. A token is 256 random bits as text.
//
// It owns the key files of the data directory. The server and the command line call it. Keys are made at the first
// start. It must never replace a key file that is damaged or missing beside the others: every node would have to be
// told the new key.
package identity
