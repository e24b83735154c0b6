// Package key has the command `key`: the keys that sign images, and signatures by keys that are kept on another
// machine.
//
// It calls the HTTP API, and signs manifests with the keys of the data directory. The package cli adds the command to
// the tree. It must never print or send a private key.
package key
