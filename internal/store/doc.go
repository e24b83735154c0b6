// Package store keeps objects by their digest and manifests by theirs.
//
// A Dir is a store in a directory: what the builder writes and what the server sends. HTTP is a store read
// over plain HTTP GET from one server; Failover, Retry and the like wrap others and are composed where they
// are used. An object never changes, so nothing here invalidates, locks for reading or expires.
//
// A Dir is whole at every moment, also after a crash or a full disk: a file gets its final name only when
// its bytes are on the disk, and a manifest gets its name only when everything it needs has one. What an
// interrupted writer leaves behind is unreferenced files, which the next writer of the same bytes uses
// and Check counts.
//
// The layout of the directory is specified in docs/formats/store.md.
package store
