package netboot

import "fmt"

// Arch is the architecture that a client names when it requests a boot file: DHCPv4 option 93, DHCPv6 option 61. The
// numbers are IANA's (Processor Architecture Types).
type Arch uint16

// The architectures that Pando distinguishes.
const (
	BIOS      Arch = 0
	EFIIA32   Arch = 6
	EFIX64    Arch = 7
	EFIX64EBC Arch = 9 // EFI byte code in RFC 4578; firmware that sends it is x86-64 (RFC 4578 errata)
	EFIARM64  Arch = 11
	HTTPIA32  Arch = 15
	HTTPX64   Arch = 16
	HTTPARM64 Arch = 19
)

// Class is what firmware can start: one loader serves one class.
type Class string

// The classes.
const (
	ClassBIOS  Class = "bios"
	ClassIA32  Class = "efi-ia32"
	ClassX64   Class = "efi-x64"
	ClassARM64 Class = "efi-arm64"
)

// Class returns the class of firmware of this architecture, and false for an unknown architecture.
func (a Arch) Class() (Class, bool) {
	switch a {
	case BIOS:
		return ClassBIOS, true
	case EFIIA32, HTTPIA32:
		return ClassIA32, true
	case EFIX64, EFIX64EBC, HTTPX64:
		return ClassX64, true
	case EFIARM64, HTTPARM64:
		return ClassARM64, true
	}
	return "", false
}

// String names the architecture for people, with its number.
func (a Arch) String() string {
	c, ok := a.Class()
	if !ok {
		return fmt.Sprintf("unknown (%d)", uint16(a))
	}
	return fmt.Sprintf("%s (%d)", c, uint16(a))
}
