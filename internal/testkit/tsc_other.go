//go:build !amd64

package testkit

// readTSC is there on amd64 only.
func readTSC() uint64 { return 0 }
