package netboot

import (
	"fmt"
	"strings"
)

// Loaders are the file names of the iPXE builds at hand, by the class of firmware that can start them.
type Loaders map[Class]string

// Candidates are the file names that a loader of a class has in Debian's package ipxe and in iPXE's own releases, the
// best first. snponly comes first: it uses the firmware's NIC driver, which has just loaded a file. The other builds
// have drivers of their own.
func Candidates(c Class) []string {
	switch c {
	case ClassBIOS:
		return []string{"undionly.kpxe", "ipxe.pxe"}
	case ClassX64:
		return []string{"snponly.efi", "snponly-amd64.efi", "ipxe-amd64.efi", "ipxe.efi"}
	case ClassIA32:
		return []string{"snponly-ia32.efi", "ipxe-ia32.efi", "ipxe-i386.efi"}
	case ClassARM64:
		return []string{"snponly-arm64.efi", "ipxe-arm64.efi"}
	}
	return nil
}

// owner returns the package that has a loader of a class.
func owner(c Class) string {
	switch c {
	case ClassARM64:
		return "package ipxe of Debian 13 or later"
	case ClassIA32:
		return "iPXE's own builds; Debian has none"
	}
	return "Debian: package ipxe"
}

// Classes are all the classes, in a fixed order.
func Classes() []Class { return []Class{ClassBIOS, ClassX64, ClassIA32, ClassARM64} }

// Paths of boot files and scripts on the image port (8480).
const (
	FilePath   = "/boot/file/" // + the loader's name
	ScriptPath = "/boot/script"
)

// NoBootFile begins the reason why a machine gets no boot file.
const NoBootFile = "no boot file for"

// BootFile decides what the client is told to load: a file name to fetch by TFTP, or a URL. base is the URL of the
// image port as this client sees it, "http://10.0.0.1:8480". A client that does not boot gets "" and no error.
func BootFile(c Client, l Loaders, base string) (string, error) {
	if !c.Boots() {
		return "", nil
	}
	if c.Kind == IPXE && c.Sufficient() {
		return base + ScriptPath, nil
	}
	class, known := c.Arch.Class()
	if !known {
		return "", fmt.Errorf(NoBootFile+" architecture %d: it is neither BIOS nor UEFI on x86 or ARM64", c.Arch)
	}
	name := l[class]
	if name == "" {
		return "", fmt.Errorf(NoBootFile+" %s firmware (architecture %d): put %s into the boot file directory (%s)",
			class, c.Arch, strings.Join(Candidates(class), " or "), owner(class))
	}
	if c.Kind == HTTPBoot {
		return base + FilePath + name, nil
	}
	return name, nil
}
