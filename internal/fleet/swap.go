package fleet

import (
	"fmt"
	"strings"
)

// The kinds of swap space.
const (
	SwapNone   = "none"
	SwapZram   = "zram"   // compressed memory, half as large as the memory
	SwapDisk   = "disk"   // a partition named SwapPartition
	SwapVolume = "volume" // a block device that the server provides for one boot: docs/adr/0037-swap-on-volumes.md
)

// SwapPartition is the GPT name of a partition that swap space may be on.
const SwapPartition = "pando-swap"

// Bounds of swap space on a volume, in bytes.
const (
	MinSwap int64 = 64e6
	MaxSwap int64 = 1e12
)

// Swap is where a node's swap space is.
type Swap struct {
	Kind string
	Size int64 // bytes of SwapVolume
}

// ParseSwap parses swap space: "none", "zram", "disk", "volume SIZE"; "" is none.
func ParseSwap(s string) (Swap, error) {
	f := strings.Fields(s)
	switch {
	case len(f) == 0:
		return Swap{Kind: SwapNone}, nil
	case f[0] == SwapVolume && len(f) <= 2:
		return swapVolume(s, f[1:])
	case len(f) == 1 && (f[0] == SwapNone || f[0] == SwapZram || f[0] == SwapDisk):
		return Swap{Kind: f[0]}, nil
	}
	return Swap{}, fmt.Errorf("swap %q: want none, zram, disk or 'volume SIZE'", s)
}

func swapVolume(s string, f []string) (Swap, error) {
	if len(f) == 0 {
		return Swap{}, fmt.Errorf("swap %q: how large? 'volume 4GB'", s)
	}
	size, err := ParseSize(f[0])
	if err != nil {
		return Swap{}, fmt.Errorf("swap %q: %w", s, err)
	}
	size &^= 4095 // whole blocks of 4 KiB
	if size < MinSwap || size > MaxSwap {
		return Swap{}, fmt.Errorf("swap %q: use a volume of %s to %s", s, SizeText(MinSwap), SizeText(MaxSwap))
	}
	return Swap{Kind: SwapVolume, Size: size}, nil
}

// SwapText returns the swap space as declared, SwapNone for none.
func (k Keeping) SwapText() string {
	if s := ValueOf(k.Swap); s != "" {
		return s
	}
	return SwapNone
}

// swapNote warns about swap space on the server; it is "" for other swap space.
func swapNote(s Settings) string {
	if s.SwapSpace().Kind != SwapVolume {
		return ""
	}
	return "while the server is away, programs stand still whose memory is in its swap space"
}

// SwapSpace returns the parsed swap space. An invalid value counts as none; Validate has refused it before.
func (k Keeping) SwapSpace() Swap {
	s, err := ParseSwap(k.SwapText())
	if err != nil {
		return Swap{Kind: SwapNone}
	}
	return s
}
