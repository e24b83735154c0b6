//go:build !amd64

package testkit

// readTSC exists for amd64 only.
func readTSC() uint64 { return 0 }
