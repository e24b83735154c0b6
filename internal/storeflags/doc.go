// Package storeflags opens the store of a data directory: in the directory itself, or in a bucket.
//
// It has the flags of `serve` and `up` that name a bucket, and remembers them in the data directory for other
// commands on this machine. It must never remove a store.
package storeflags
