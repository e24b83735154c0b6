package testkit

// readTSC is the time stamp counter of this processor, which is also that of the machines that QEMU emulates on it.
func readTSC() uint64
