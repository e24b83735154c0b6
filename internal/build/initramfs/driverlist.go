package initramfs

import (
	"slices"
	"strings"

	"pando/internal/image"
)

// DriverList names the modules of one driver part. Modules that these depend on are added.
type DriverList struct {
	Name    string
	Always  []string // every boot loads them; without them no node boots
	Devices []string // loaded if a device needs them; a kernel may lack some
	unpack  bool     // store modules unpacked even if the kernel can unpack them

	insteadOf string        // part that a node gets instead if its NIC is not known; both need the base part
	nics      []string      // those of Devices that drive the NICs that this part is for
	pci       image.PCIList // NICs that this part is for; "": those in the aliases of nics
}

// netDrivers is the part with every usual network adapter.
const netDrivers = "net"

// withMore adds adapters to the lists: all of them to the net part, and a part of its own for each.
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

// usual reports whether a module is on the built-in lists.
func usual(name string) bool {
	return slices.Contains(strings.Fields(wiredAdapters+usbAdapters), name)
}

// MoreOf returns the modules of network adapters that a version has besides the usual ones.
func MoreOf(m image.Manifest) (more []string) {
	for _, d := range m.Drivers {
		if d.InsteadOf == netDrivers && slices.Equal(d.For, []string{d.Name}) && !usual(d.Name) {
			more = append(more, d.Name)
		}
	}
	return more
}

// DriverLists returns the module lists for a kind of root file system and an architecture. Modules of the base part
// are stored unpacked: each boot loads most of them, and zstd is faster than the kernel's xz. Those of the net part
// stay compressed: a boot loads only one or two of them.
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
			nics: []string{"virtio_net"}, pci: "1af4:1000,1041"}, // the aliases of virtio_net match every virtio device
		{Name: netDrivers, Devices: strings.Fields(adapters)},
	}
}

// wiredAdapters are PCI and paravirtual Ethernet adapters of PCs, servers and virtual machines. Rare or large drivers
// are left out; a recipe can add them ("drivers").
const wiredAdapters = `
	dwmac_intel
	e100 e1000 e1000e igb igbvf igc ixgb ixgbe ixgbevf i40e iavf ice
	r8169 8139too 8139cp atlantic alx atl1 atl1c atl1e atl2 jme sky2 skge forcedeth via_rhine via_velocity
	sis190 sis900 tulip natsemi 3c59x pcnet32
	tg3 bnx2 bnx2x bnxt_en be2net qede enic mlx4_en mlx5_core
	ena gve vmxnet3 hv_netvsc pci_hyperv xen_netfront
`

// boardAdapters are Ethernet adapters of arm64 processors and boards that are on no discoverable bus: HiSilicon,
// Cavium and Marvell, Ampere, Socionext, Qualcomm, AMD, NXP, Broadcom, Rockchip, Allwinner, Amlogic. A board that
// UEFI describes by a device tree may also need clock and pin drivers, which are not here.
const boardAdapters = `
	hns3 hns_enet_drv hns_dsaf nicvf nicpf thunder_bgx mvneta mvpp2 xgene_enet xgene_enet_v2 netsec qcom_emac amd_xgbe
	fsl_dpaa2_eth fsl_enetc fec genet macb bcmgenet stmmac_platform dwmac_generic dwmac_rk dwmac_sun8i dwmac_meson8b
`

// usbHosts are the host controllers of USB adapters.
const usbHosts = `xhci_pci ehci_pci ohci_pci uhci_hcd`

// usbAdapters are USB Ethernet adapters.
const usbAdapters = `
	r8152 ax88179_178a asix cdc_ether cdc_ncm smsc75xx smsc95xx lan78xx aqc111 rtl8150 dm9601 mcs7830 pegasus
`

// transceivers are the PHY drivers that the adapters above request from the kernel by name (mdio:...).
const transceivers = `realtek broadcom bcm_phy_lib marvell micrel smsc at803x qca83xx icplus ax88796b mdio_devres`

// Where the kernel has drivers of wired adapters: directories below drivers/net, buses of their aliases.
const (
	adapterDirs  = `ethernet usb vmxnet3 hyperv fjes`
	adapterBuses = `pci usb vmbus xen tbsvc of acpi*`
)

// modems are what drivers/net/usb has beside network adapters: mobile networks and phones.
const modems = `qmi_wwan cdc_mbim huawei_cdc_ncm hso sierra_net kalmia lg_vl600 cdc_phonet ipheth`
