package testkit

// readTSC returns the time stamp counter of this processor. Machines that QEMU emulates here have the same counter.
func readTSC() uint64
