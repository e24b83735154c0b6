package fleetview

import (
	"encoding/json"
	"pando/internal/fleet"
	"pando/internal/registry"
	"strings"
)

// BootClass names the hardware class of a boot.
func BootClass(b registry.Boot) string {
	var h fleet.Hardware
	if json.Unmarshal(b.Hardware, &h) != nil {
		return "" // it registered without
	}
	return HardwareClass(h)
}

// HardwareClass names hardware by vendor and product, "" when the machine tells neither. Boots of one class load the
// same drivers and firmware, so they read the same.
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

// maxClass is the longest name of a hardware class, as the format of boot packs has it.
const maxClass = 63
