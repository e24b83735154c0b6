package fleetview

import (
	"encoding/json"
	"pando/internal/fleet"
	"pando/internal/registry"
	"strings"
)

// BootClass returns the name of the hardware class of a boot, "" if unknown.
func BootClass(b registry.Boot) string {
	var h fleet.Hardware
	if json.Unmarshal(b.Hardware, &h) != nil {
		return "" // the boot has reported no hardware
	}
	return HardwareClass(h)
}

// HardwareClass returns a name for hardware made of vendor and product, "" if the machine reports neither. Boots of one
// class load the same drivers and firmware, so they read the same data.
func HardwareClass(h fleet.Hardware) string {
	var out strings.Builder
	dash := false
	for _, c := range strings.ToLower(h.Vendor + " " + h.Product) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			if dash && out.Len() > 0 {
				out.WriteByte('-')
			}
			out.WriteRune(c)
			dash = false
		} else {
			dash = true
		}
	}
	return strings.TrimRight(out.String()[:min(out.Len(), maxClass)], "-")
}

// maxClass is the longest name of a hardware class that the format of boot packs allows.
const maxClass = 63
