package media

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// headerSize is the part of a slot before the kernel: a GRUB script, padded with line ends.
const headerSize = 8 * Sector

// K is the kernel and initrd that a slot starts.
type K struct {
	Kernel    []byte
	Initramfs []byte
	Args      []string // kernel arguments
}

// Header describes the content of a slot. The zero Header is an empty slot.
type Header struct {
	Sequence uint64 // the slot with the higher number is started
	Digest   string // digest of everything but the sequence: 64 hex digits
}

// magic begins a slot.
const magic = "# Pando K 1\n"

// slot returns the content of a slot: its header and K.
func slot(sequence uint64, k K) ([]byte, error) {
	kernel, initramfs := sectors(len(k.Kernel)), sectors(len(k.Initramfs))
	if total := headerSize + (kernel+initramfs)*Sector; total > SlotSize {
		return nil, fmt.Errorf("kernel and initramfs need %d bytes, a slot has %d", total, SlotSize)
	}
	args, err := grubWords(k.Args)
	if err != nil {
		return nil, err
	}
	var h bytes.Buffer
	fmt.Fprintf(&h, "%sset k_seq=%d\nset k_sum=%s\n", magic, sequence, k.Digest())
	fmt.Fprintf(
		&h,
		"set k_kernel=%d+%d\nset k_initrd=%d+%d\n",
		headerSize/Sector,
		kernel,
		headerSize/Sector+kernel,
		initramfs,
	)
	fmt.Fprintf(&h, "set k_args=\"%s\"\n", args)
	if h.Len() > headerSize {
		return nil, fmt.Errorf(
			"header of a slot has %d bytes, more than %d: fewer kernel arguments",
			h.Len(),
			headerSize,
		)
	}
	out := make([]byte, headerSize+(kernel+initramfs)*Sector)
	for i := range headerSize {
		out[i] = '\n'
	}
	copy(out, h.Bytes())
	copy(out[headerSize:], k.Kernel)
	copy(out[headerSize+kernel*Sector:], k.Initramfs)
	return out, nil
}

func sectors(n int) int { return (n + Sector - 1) / Sector }

// Digest returns the digest of K: 64 hex digits.
func (k K) Digest() string {
	h := sha256.New()
	for _, part := range [][]byte{k.Kernel, k.Initramfs, []byte(strings.Join(k.Args, "\n"))} {
		fmt.Fprintf(h, "%d\n", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ParseHeader parses the first sector of a slot. If it is no header, the result is the zero Header.
func ParseHeader(sector []byte) Header {
	var h Header
	text, ok := strings.CutPrefix(string(sector[:min(len(sector), Sector)]), magic)
	if !ok {
		return h
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "set k_seq":
			h.Sequence, _ = strconv.ParseUint(value, 10, 63)
		case "set k_sum":
			h.Digest = value
		}
	}
	return h
}

// grubWords checks that arguments reach the kernel as they are. GRUB would expand "$", and puts a backslash before
// quotes.
func grubWords(args []string) (string, error) {
	for _, a := range args {
		if strings.ContainsAny(a, "\"'\\$`\n") {
			return "", fmt.Errorf("kernel argument %q: GRUB cannot pass quotes, backslashes and dollar signs", a)
		}
	}
	return strings.Join(args, " "), nil
}
