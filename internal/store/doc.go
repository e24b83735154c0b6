// Package store keeps objects and manifests by their digests. A Dir is a store in a directory; HTTP reads a store from
// one server; Failover, Retry and others wrap a store.
//
// It owns the layout of the directory (docs/formats/store.md). The build, the server and the nodes call it. An object
// never changes, so there is no invalidation, no lock for readers and no expiry.
//
// A Dir is consistent at every moment, also after a crash or on a full disk. It must never serve bytes under a digest
// that is not theirs.
package store
