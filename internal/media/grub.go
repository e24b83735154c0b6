package media

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Loader has the programs that start a machine from a medium: GRUB in its forms, and iPXE.
type Loader struct {
	BootCode []byte // GRUB's boot.img, for the MBR
	Core     []byte // GRUB for BIOS, made with EarlyConfig
	Local    []byte // the same with LocalEarlyConfig, in the form of a Linux kernel (lnxboot.img before it)
	EFI      []byte // GRUB for UEFI on x86-64, made with EarlyConfig
	IPXE     []byte // ipxe.lkrn
	IPXEEFI  []byte // ipxe.efi
}

// GRUB's modules. They are part of its images, so nothing is loaded later.
const (
	commonModules = "part_gpt part_msdos fat normal configfile search search_fs_file regexp echo test true sleep " +
		"boot linux reboot halt"
	BIOSModules = commonModules + " biosdisk linux16"
	EFIModules  = commonModules + " chain all_video"
)

// What is built into GRUB's images.
const (
	EarlyConfig = "search --no-floppy --set=root --file /pando/grub.cfg\nset " +
		"prefix=($root)/pando\nconfigfile ($root)/pando/grub.cfg\n"
	LocalEarlyConfig = "search --no-floppy --set=root --file /pando/local.cfg\nset " +
		"prefix=($root)/pando\nconfigfile ($root)/pando/local.cfg\n"
)

// netConfig starts iPXE, which contacts the servers first. UEFI returns to GRUB if iPXE finds none. BIOS does not: iPXE
// starts a second GRUB, its initial RAM disk, which a server's script frees (if the server dies then, the machine
// restarts). With "medium" set, a server's script does not retry for ever, but ends as if no server had been found.
const netConfig = `echo "Pando: looking for a server"
if [ "$grub_platform" = efi ]; then
  if chainloader ($root)/pando/ipxe.efi; then boot; fi
else
  linux16 ($root)/pando/ipxe.krn set medium 1 '&&' autoboot '||' imgexec '<INITRD>' '||' reboot
  initrd16 ($root)/pando/local.krn
  boot
fi
source ($root)/pando/local.cfg
`

// leaveScript ends iPXE under UEFI. There iPXE takes no command line from GRUB, but reads the file system that it was
// started from. A server's script without an answer for long chains to this script.
const leaveScript = "#!ipxe\nexit 1\n"

// localConfig starts the newer of the complete slots, and the other slot if the newer one does not start.
const localConfig = `echo "Pando: no server answers; starting from this medium"
regexp --set=1:disk '^([^,]+),' "$root"
function slot {
  unset k_seq
  source ($disk,gpt$1)0+8
}
function start {
  slot $1
  if [ -n "$k_seq" ]; then
    if linux ($disk,gpt$1)$k_kernel $k_args; then
      if initrd ($disk,gpt$1)$k_initrd; then boot; fi
    fi
  fi
}
slot 3
set a=0
if [ -n "$k_seq" ]; then set a=$k_seq; fi
slot 4
set b=0
if [ -n "$k_seq" ]; then set b=$k_seq; fi
if [ $b -gt $a ]; then
  start 4
  start 3
else
  start 3
  start 4
fi
echo "Pando: nothing on this medium can be started. Trying again in 30 seconds."
sleep 30
reboot
`

// files returns the content of the EFI system partition.
func (l Loader) files() map[string][]byte {
	return map[string][]byte{
		"EFI/BOOT/BOOTX64.EFI": l.EFI,
		"PANDO/GRUB.CFG":       []byte(netConfig),
		"PANDO/LOCAL.CFG":      []byte(localConfig),
		"PANDO/LEAVE.IPX":      []byte(leaveScript),
		"PANDO/IPXE.EFI":       l.IPXEEFI,
		"PANDO/IPXE.KRN":       l.IPXE,
		"PANDO/LOCAL.KRN":      l.Local,
	}
}

// bootCodeSize is the size of the code in the first sector, in bytes. The rest of the sector is an MBR partition table.
const bootCodeSize = 440

// Offsets in GRUB's images for BIOS (grub-core/boot/i386/pc of GRUB 2).
const (
	kernelSector = 0x5c  // in boot.img: where the core begins, 8 bytes
	driveCheck   = 0x66  // in boot.img: a jump; without it GRUB corrects the drive number of a wrong BIOS
	blockList    = 0x1f4 // in the core's first sector: start of the rest, 8 bytes; its length, 2; its segment, 2
	coreSegment  = 0x820
)

// embed returns boot code and core with the places that they need to load each other.
func (l Loader) embed() (bootCode, core []byte, err error) {
	n := sectors(len(l.Core))
	if len(l.BootCode) != Sector || n < 2 || n*Sector > loaderSize {
		return nil, nil, fmt.Errorf("GRUB's images have %d and %d bytes, which cannot be", len(l.BootCode), len(l.Core))
	}
	bootCode = append([]byte(nil), l.BootCode...)
	binary.LittleEndian.PutUint64(bootCode[kernelSector:], loaderAt/Sector)
	bootCode[driveCheck], bootCode[driveCheck+1] = 0x90, 0x90
	core = append([]byte(nil), l.Core...)
	binary.LittleEndian.PutUint64(core[blockList:], loaderAt/Sector+1)
	binary.LittleEndian.PutUint16(core[blockList+8:], uint16(n-1))
	binary.LittleEndian.PutUint16(core[blockList+10:], coreSegment)
	return bootCode, core, nil
}

// Modules splits a list of GRUB's modules.
func Modules(list string) []string { return strings.Fields(list) }
