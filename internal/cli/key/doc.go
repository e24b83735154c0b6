// Package key has the command `key`: the keys that sign images, and signatures by keys that are kept elsewhere.
//
// It calls the HTTP API, and signs manifests with the keys of the data directory. The package cli adds it to the
// tree. It must never print or send a private key.
package key
