package initramfs

import (
	"slices"
	"strings"

	"pando/internal/image"
)

// DriverList names the modules of one driver part. The modules that these need are added.
type DriverList struct {
	Name    string
	Always  []string // loaded by every boot; without them no node boots
	Devices []string // loaded where a device asks for them; a kernel may lack some
	unpack  bool     // store modules unpacked although the kernel could unpack them

	insteadOf string        // the part that this one is a choice from, which base comes with as well
	nics      []string      // of devices, those that drive the NICs that this part is for
	pci       image.PCIList // NICs that it is for; "": those that the aliases of nics name
}

// netDrivers is the part with every usual network adapter.
const netDrivers = "net"

// withMore adds further adapters to the lists: to that of all adapters, and each as one that a node is known to have.
func withMore(lists []DriverList, more []string) []DriverList {
	more = slices.DeleteFunc(slices.Clone(more), usual)
	for i := range lists {
		if lists[i].Name == netDrivers {
			lists[i].Devices = slices.Concat(lists[i].Devices, more)
		}
	}
	for _, name := range more {
		one := []string{name}
		lists = append(lists, DriverList{Name: name, insteadOf: netDrivers, nics: one, Devices: one})
	}
	return lists
}

// usual reports whether a module is on the lists anyway.
func usual(name string) bool {
	return slices.Contains(strings.Fields(wiredAdapters+usbAdapters), name)
}

// MoreOf are the modules of a version that were asked for beside the usual ones.
func MoreOf(m image.Manifest) (more []string) {
	for _, d := range m.Drivers {
		if d.InsteadOf == netDrivers && slices.Equal(d.For, []string{d.Name}) && !usual(d.Name) {
			more = append(more, d.Name)
		}
	}
	return more
}

// DriverLists returns the modules of an initramfs, for a root file system of a kind and an architecture. Modules of the
// base part are decompressed: each boot loads most of them, and zstd is several times faster than the kernel's xz. Of
// the net part a boot loads one or two, so those stay compressed, which is also smaller.
func DriverLists(fileSystem, architecture string) []DriverList {
	if fileSystem == "" {
		fileSystem = image.Erofs
	}
	adapters := wiredAdapters + usbHosts + usbAdapters + transceivers
	if architecture == "arm64" {
		adapters += boardAdapters
	}
	return []DriverList{
		{Name: "base", unpack: true,
			Always: []string{"nbd", fileSystem, "overlay", "af_packet"},
			Devices: strings.Fields(`crc32c_generic crc32c_intel crc32c_cryptoapi
				virtio_pci virtio_mmio virtio_net virtio_rng`),
			nics: []string{"virtio_net"}, pci: "1af4:1000,1041"}, // the aliases are those of every virtio device
		{Name: netDrivers, Devices: strings.Fields(adapters)},
	}
}

// wiredAdapters are PCI and paravirtual Ethernet adapters found in PCs, servers and virtual machines. What the kernel
// has beside them is left out for its size or rarity: a recipe names what its machines have (drivers).
const wiredAdapters = `
	dwmac_intel
	e100 e1000 e1000e igb igbvf igc ixgb ixgbe ixgbevf i40e iavf ice
	r8169 8139too 8139cp atlantic alx atl1 atl1c atl1e atl2 jme sky2 skge forcedeth via_rhine via_velocity
	sis190 sis900 tulip natsemi 3c59x pcnet32
	tg3 bnx2 bnx2x bnxt_en be2net qede enic mlx4_en mlx5_core
	ena gve vmxnet3 hv_netvsc pci_hyperv xen_netfront
`

// boardAdapters are Ethernet adapters of arm64 processors and boards, which are on no bus that is searched: HiSilicon,
// Cavium and Marvell, Ampere, Socionext, Qualcomm, AMD, NXP, Broadcom, Rockchip, Allwinner, Amlogic. A board that UEFI
// describes by a device tree may want drivers of clocks and pins beside, which are not here.
const boardAdapters = `
	hns3 hns_enet_drv hns_dsaf nicvf nicpf thunder_bgx mvneta mvpp2 xgene_enet xgene_enet_v2 netsec qcom_emac amd_xgbe
	fsl_dpaa2_eth fsl_enetc fec genet macb bcmgenet stmmac_platform dwmac_generic dwmac_rk dwmac_sun8i dwmac_meson8b
`

// usbHosts are the host controllers that USB adapters hang on.
const usbHosts = `xhci_pci ehci_pci ohci_pci uhci_hcd`

// usbAdapters are USB Ethernet adapters.
const usbAdapters = `
	r8152 ax88179_178a asix cdc_ether cdc_ncm smsc75xx smsc95xx lan78xx aqc111 rtl8150 dm9601 mcs7830 pegasus
`

// transceivers are the PHY drivers that the adapters above ask the kernel for by name (mdio:...).
const transceivers = `realtek broadcom bcm_phy_lib marvell micrel smsc at803x qca83xx icplus ax88796b mdio_devres`

// Where the kernel has drivers of wired adapters: directories below drivers/net, buses of their aliases.
const (
	adapterDirs  = `ethernet usb vmxnet3 hyperv fjes`
	adapterBuses = `pci usb vmbus xen tbsvc of acpi*`
)

// modems are what drivers/net/usb has beside network adapters: mobile networks and phones.
const modems = `qmi_wwan cdc_mbim huawei_cdc_ncm hso sierra_net kalmia lg_vl600 cdc_phonet ipheth`
