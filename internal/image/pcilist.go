package image

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// PCIList names PCI devices in one canonical text: vendors in ascending order, each with its devices in ascending
// order, "8086:1533,1536 10ec:8168" in lower-case hex; "1af4:*" is every device of a vendor.
type PCIList string

// MaxPCIList is the longest list, in bytes: some 1,600 devices of one vendor.
const MaxPCIList = 8 << 10

// pciAlias is how a module's alias begins that names a vendor, and perhaps a device. What follows (subsystem, class)
// narrows it down; who matches by vendor and device alone takes more devices than the module does, never fewer.
var pciAlias = regexp.MustCompile(`^pci:v0000([0-9A-F]{4})d(?:0000([0-9A-F]{4})|\*)`)

// PCIOf lists the devices that the aliases of modules name. Aliases of other buses, and those for devices of any vendor,
// are left out.
func PCIOf(aliases []string) PCIList {
	devices := map[string][]string{}
	for _, a := range aliases {
		m := pciAlias.FindStringSubmatch(a)
		if m == nil {
			continue
		}
		vendor, device := strings.ToLower(m[1]), strings.ToLower(m[2])
		if device == "" {
			device = "*"
		}
		devices[vendor] = append(devices[vendor], device)
	}
	return formatPCI(devices)
}

func formatPCI(devices map[string][]string) PCIList {
	var words []string
	for vendor, list := range devices {
		slices.Sort(list)
		if list = slices.Compact(list); list[0] == "*" { // sorts before the digits
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

var pciWord = regexp.MustCompile(`^[0-9a-f]{4}:(\*|[0-9a-f]{4}(,[0-9a-f]{4})*)$`)

// check says what is wrong with a list: only the one canonical text passes.
func (l PCIList) check() error {
	if l == "" {
		return nil
	}
	if len(l) > MaxPCIList {
		return fmt.Errorf("%d bytes, more than %d", len(l), MaxPCIList)
	}
	devices := map[string][]string{}
	for word := range strings.SplitSeq(string(l), " ") {
		if !pciWord.MatchString(word) {
			return fmt.Errorf("%.40q is not vendor:device,device", word)
		}
		v, list, _ := strings.Cut(word, ":")
		devices[v] = append(devices[v], strings.Split(list, ",")...)
	}
	if want := formatPCI(devices); l != want {
		return fmt.Errorf("devices stand twice or in another order than in %.40q", want)
	}
	return nil
}

// PCIDevice reads vendor and device from a device's modalias, which always names both.
func PCIDevice(modalias string) (vendor, device uint16, ok bool) {
	m := pciAlias.FindStringSubmatch(modalias)
	if m == nil || m[2] == "" {
		return 0, 0, false
	}
	v, _ := strconv.ParseUint(m[1], 16, 16) // the pattern lets nothing else through
	d, _ := strconv.ParseUint(m[2], 16, 16)
	return uint16(v), uint16(d), true
}
