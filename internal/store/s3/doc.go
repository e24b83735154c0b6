// Package s3 keeps a store in a bucket of an S3-compatible object store.
//
// A Bucket is a store.Remote. Its names are those of the files of a store in a directory, so that either can be copied
// to the other. It is a separate package because the node's program links package store, and an S3 client is large.
//
// It owns the connection to the bucket. The server and the command line open it (storeflags). The node's program must
// never import it.
package s3
