// Package nodekit has what tests of the node's packages share: a /sys made of files, a server with its own key, the
// reply to a registration.
//
// It owns no state, and only tests use it. It must not import any package whose tests use it, which are most packages
// of the node.
package nodekit

// T is the part of a test that the helpers need.
type T interface {
	Helper()
	Cleanup(func())
	Fatal(...any)
	TempDir() string
}
