package testkit

import "strings"

// UsualNICs names the drivers' parts of adapters that K is bounded for when one of them is known, beside virtio.
// Mellanox's newest and the part with every USB adapter are left out: they are larger, and rarely what a node boots
// by.
func UsualNICs() []string {
	return strings.Fields(
		"e1000 e1000e igb igc r8169 rtl8139 atlantic alx ena vmxnet3 hyperv tg3 bnxt_en i40e ixgbe mlx4 bnx2x ice qede",
	)
}
