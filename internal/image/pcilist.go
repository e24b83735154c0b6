package image

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// PCIList names PCI devices in one canonical text in lower-case hex: vendors in ascending order, each with its
// devices in ascending order, as in "8086:1533,1536 10ec:8168". "1af4:*" means every device of a vendor.
type PCIList string

// MaxPCIList is the length of the longest list in bytes: some 1,600 devices of one vendor.
const MaxPCIList = 8 << 10

// pciAlias reads vendor and device from the beginning of a module's alias, in hex digits as written; the device may
// be "*". The rest of the alias (subsystem, class) is ignored, so a match may include devices that the module does
// not drive, but never misses one.
func pciAlias(alias string) (vendor, device string, ok bool) {
	rest, ok := strings.CutPrefix(alias, "pci:v0000")
	if !ok || len(rest) < 6 || rest[4] != 'd' {
		return "", "", false
	}
	vendor, rest = rest[:4], rest[5:]
	device = "*"
	if rest[0] != '*' {
		if rest, ok = strings.CutPrefix(rest, "0000"); !ok || len(rest) < 4 {
			return "", "", false
		}
		device = rest[:4]
	}
	return vendor, device, isHex(vendor, "ABCDEF") && (device == "*" || isHex(device, "ABCDEF"))
}

// isHex reports whether s is four hex digits; letters are the accepted digits above 9.
func isHex(s, letters string) bool {
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && strings.IndexByte(letters, s[i]) < 0 {
			return false
		}
	}
	return len(s) == 4
}

// PCIOf lists the devices in the aliases of modules. It leaves out aliases of other buses and those for any vendor.
func PCIOf(aliases []string) PCIList {
	devices := map[string][]string{}
	for _, a := range aliases {
		if vendor, device, ok := pciAlias(a); ok {
			vendor = strings.ToLower(vendor)
			devices[vendor] = append(devices[vendor], strings.ToLower(device))
		}
	}
	return formatPCI(devices)
}

func formatPCI(devices map[string][]string) PCIList {
	var words []string
	for vendor, list := range devices {
		slices.Sort(list)
		if list = slices.Compact(list); list[0] == "*" { // "*" sorts before the digits
			list = list[:1]
		}
		words = append(words, vendor+":"+strings.Join(list, ","))
	}
	slices.Sort(words)
	return PCIList(strings.Join(words, " "))
}

// Has reports whether a device is in the list.
func (l PCIList) Has(vendor, device uint16) bool {
	want, name := fmt.Sprintf("%04x", vendor), fmt.Sprintf("%04x", device)
	for word := range strings.SplitSeq(string(l), " ") {
		if v, list, _ := strings.Cut(word, ":"); v == want {
			return list == "*" || slices.Contains(strings.Split(list, ","), name)
		}
	}
	return false
}

// isPCIWord reports whether s is a vendor with a list of devices, or with "*".
func isPCIWord(s string) bool {
	vendor, list, ok := strings.Cut(s, ":")
	if !ok || !isHex(vendor, "abcdef") {
		return false
	}
	for device := range strings.SplitSeq(list, ",") {
		if list != "*" && !isHex(device, "abcdef") {
			return false
		}
	}
	return true
}

// check returns what is wrong with a list. Only the canonical text is valid.
func (l PCIList) check() error {
	if l == "" {
		return nil
	}
	if len(l) > MaxPCIList {
		return fmt.Errorf("%d bytes, more than %d", len(l), MaxPCIList)
	}
	devices := map[string][]string{}
	for word := range strings.SplitSeq(string(l), " ") {
		if !isPCIWord(word) {
			return fmt.Errorf("%.40q is not vendor:device,device", word)
		}
		v, list, _ := strings.Cut(word, ":")
		devices[v] = append(devices[v], strings.Split(list, ",")...)
	}
	if want := formatPCI(devices); l != want {
		return fmt.Errorf("devices are listed twice, or not in the order of %.40q", want)
	}
	return nil
}

// PCIDevice reads vendor and device from the modalias of a device, which always has both.
func PCIDevice(modalias string) (vendor, device uint16, ok bool) {
	v, d, ok := pciAlias(modalias)
	if !ok || d == "*" {
		return 0, 0, false
	}
	vendorID, _ := strconv.ParseUint(v, 16, 16) // pciAlias has checked the four hex digits
	deviceID, _ := strconv.ParseUint(d, 16, 16)
	return uint16(vendorID), uint16(deviceID), true
}
