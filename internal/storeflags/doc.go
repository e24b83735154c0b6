// Package storeflags opens the store of a data directory: in the directory itself, or in a bucket.
//
// It owns the file of the data directory that names the bucket, so that other commands on this machine find it, and
// the flags of `serve` and `up` for it. The commands call it. It must never remove a store.
package storeflags
