// Package store keeps objects and manifests by their digests.
//
// A Dir is a store in a directory: the builder writes it and the server sends from it. HTTP reads a store from one
// server by GET. Failover, Retry and others wrap a store, and callers combine them. An object never changes, so there
// is no invalidation, no lock for readers and no expiry.
//
// It owns the layout of the directory (docs/formats/store.md). The build, the server and the nodes call it. A Dir is
// consistent at every moment, also after a crash or on a full disk: a file gets its final name only when its bytes are
// on disk, and a manifest only when everything that it needs is there. An interrupted writer leaves unreferenced
// files, which the next writer of the same bytes reuses and Check counts. It must never serve bytes under a digest
// that is not theirs.
package store
