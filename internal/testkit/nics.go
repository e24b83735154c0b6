package testkit

import "strings"

// UsualNICs names the driver groups of NICs for which kernel+initrd has a size limit, besides virtio. Mellanox's newest
// NICs and USB adapters are not in the list: their drivers are larger, and nodes rarely boot by them.
func UsualNICs() []string {
	return strings.Fields(
		"e1000 e1000e igb igc r8169 rtl8139 atlantic alx ena vmxnet3 hyperv tg3 bnxt_en i40e ixgbe mlx4 bnx2x ice qede",
	)
}
