// Package s3 keeps a store in a bucket of an S3-compatible object store.
//
// A Bucket is a store.Remote: the names are those of the files of a store in a directory, so a copy of one is the
// other. It is a package of its own because the node's program is linked from package store, and a client of S3 is
// large.
package s3
