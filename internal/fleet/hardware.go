package fleet

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hardware describes a machine, as its boot loader and the node reported it.
type Hardware struct {
	Vendor       string `json:"vendor,omitempty"`  // SMBIOS system manufacturer
	Product      string `json:"product,omitempty"` // SMBIOS product name
	Serial       string `json:"serial,omitempty"`
	UUID         string `json:"uuid,omitempty"`
	Architecture string `json:"architecture,omitempty"` // "amd64", "arm64"
	// the CPU's maker: "GenuineIntel", or "0x41" for an ARM one
	CPU    string `json:"cpu,omitempty"`
	CPUs   int    `json:"cpus,omitempty"`
	Memory int64  `json:"memory,omitempty"` // bytes
	// devices, "vendor:device:class" in hex: "8086:1533:0200"; sorted, none twice
	PCI     []string `json:"pci,omitempty"`
	NIC     string   `json:"nic,omitempty"`  // driver of the NIC that booted
	Link    int64    `json:"link,omitempty"` // bits per second of that NIC; 0: the kernel does not report it
	Modules []string `json:"modules,omitempty"`
	Missing []string `json:"missing,omitempty"` // modaliases of NICs without a driver
}

// With returns h updated by a later report. In a report "" and 0 mean unknown. Devices are added, because a boot loader
// reports only one.
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

// maxFirmwareText bounds a text from firmware, in bytes. SMBIOS says 64 characters.
const maxFirmwareText = 128

// FirmwareText converts a string of SMBIOS to text: it is read as UTF-8 if it is valid, otherwise as Latin-1.
// Surrounding spaces and control characters are removed. Boot loader and kernel pass on the same bytes, so both results
// agree.
func FirmwareText(s string) string {
	if !utf8.ValidString(s) {
		text := make([]rune, len(s))
		for i := range len(s) {
			text[i] = rune(s[i])
		}
		s = string(text)
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	return strings.ToValidUTF8(s[:min(len(s), maxFirmwareText)], "")
}
