// Package store has the commands `store` and `image verify`: the objects in the store, and whether any is missing or
// damaged.
//
// It reads the store of the data directory itself, so that it works without a server, and calls the HTTP API for
// names. The package cli adds the commands to the tree. It must never delete an object.
package store
