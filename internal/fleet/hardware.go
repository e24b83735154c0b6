package fleet

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hardware is what is known of a machine: what its boot loader told, and what a node reported of itself.
type Hardware struct {
	Vendor       string `json:"vendor,omitempty"`  // SMBIOS system manufacturer
	Product      string `json:"product,omitempty"` // SMBIOS product name
	Serial       string `json:"serial,omitempty"`
	UUID         string `json:"uuid,omitempty"`
	Architecture string `json:"architecture,omitempty"` // "amd64", "arm64"
	// its maker as the CPU tells: "GenuineIntel", "0x41" of an ARM one
	CPU    string `json:"cpu,omitempty"`
	CPUs   int    `json:"cpus,omitempty"`
	Memory int64  `json:"memory,omitempty"` // bytes
	// devices, "vendor:device:class" in hex: "8086:1533:0200"; sorted, none twice
	PCI     []string `json:"pci,omitempty"`
	NIC     string   `json:"nic,omitempty"` // driver of the NIC that booted
	Modules []string `json:"modules,omitempty"`
	Missing []string `json:"missing,omitempty"` // modaliases of NICs that no driver took
}

// With is h with what was told later: a word that is empty, or a number that is 0, tells nothing. Devices are added,
// because a boot loader knows of one only.
func (h Hardware) With(told Hardware) Hardware {
	for _, w := range []struct{ to, from *string }{{&h.Vendor, &told.Vendor}, {&h.Product, &told.Product},
		{&h.Serial, &told.Serial},
		{&h.UUID, &told.UUID}, {&h.Architecture, &told.Architecture}, {&h.CPU, &told.CPU}, {&h.NIC, &told.NIC}} {
		if *w.from != "" {
			*w.to = *w.from
		}
	}
	h.PCI = append(h.PCI[:len(h.PCI):len(h.PCI)], told.PCI...)
	return h
}

// maxFirmwareText bounds a text of firmware, in bytes. SMBIOS says 64 characters.
const maxFirmwareText = 128

// FirmwareText reads a string of SMBIOS as text: UTF-8 if it is, else each byte is a character of Latin-1. Spaces
// around it and control characters are left out. Boot loader and kernel show the same bytes, so both are read by this.
func FirmwareText(s string) string {
	if !utf8.ValidString(s) {
		runes := make([]rune, len(s))
		for i := range len(s) {
			runes[i] = rune(s[i])
		}
		s = string(runes)
	}
	s = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, s))
	return strings.ToValidUTF8(s[:min(len(s), maxFirmwareText)], "")
}
