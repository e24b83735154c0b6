package media

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Loader is what starts a machine from a medium: GRUB in its two forms, and iPXE.
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

// netConfig starts iPXE, which contacts the servers first. UEFI's GRUB regains control when iPXE finds no server. BIOS
// does not return to GRUB: there iPXE starts a second GRUB, which it got as the initial RAM disk. A server's script
// frees that before it starts a kernel; if the server dies in that moment the machine restarts.
//
// A server's script normally retries for ever. The parameter "medium" makes it end instead, as if no server had been
// found.
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

// leaveScript is for iPXE under UEFI, which takes no command line from GRUB but reads the file system that it was
// started from: a server's script that got no answer for long goes on with it, and it ends iPXE.
const leaveScript = "#!ipxe\nexit 1\n"

// localConfig starts the newer of the slots that are whole, and the other one if it does not start.
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

// files is the content of the EFI system partition.
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

// bootCodeSize is what of the first sector is code. The rest is an old partition table.
const bootCodeSize = 440

// Places in GRUB's images for BIOS (grub-core/boot/i386/pc of GRUB 2).
const (
	kernelSector = 0x5c  // in boot.img: where the core begins, 8 bytes
	driveCheck   = 0x66  // in boot.img: a jump; without it a BIOS that names the wrong drive is put right
	blockList    = 0x1f4 // in the core's first sector: where the rest is, 8 bytes, how long, 2, and to which segment, 2
	coreSegment  = 0x820
)

// embed makes boot code and core find each other.
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
