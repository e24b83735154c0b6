package netboot

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// maxLine is the longest kernel command line on x86: COMMAND_LINE_SIZE is 2048 with the NUL.
const maxLine = 2047

// CommandLine returns the kernel command line of a node: what Pando needs, then in.Args. It refuses arguments that
// iPXE would change, and those that only Pando sets.
func CommandLine(in ScriptInput) (string, error) {
	if len(in.Boot) != 16 || strings.Trim(string(in.Boot), "0123456789abcdef") != "" {
		return "", fmt.Errorf("kernel command line of %s: boot id %q is not 16 hex digits", in.Node, in.Boot)
	}
	// initrd= names the file in iPXE's list that a kernel started by UEFI has to load.
	parts := []string{"initrd=initramfs", "pando.boot=" + string(in.Boot), "BOOTIF=" + in.MAC.BootIF()}
	for _, arg := range in.Args {
		if err := checkArg(arg); err != nil {
			return "", fmt.Errorf("kernel command line of %s: %w", in.Node, err)
		}
		parts = append(parts, strings.Fields(arg)...)
	}
	line := strings.Join(parts, " ")
	if len(line) > maxLine {
		return "", fmt.Errorf("kernel command line of %s is %d bytes long; Linux takes %d", in.Node, len(line), maxLine)
	}
	return line, nil
}

// ours are the arguments that only Pando sets.
var ours = []string{"initrd", "pando.boot", "BOOTIF"}

// operators end a command when they stand alone in a line of an iPXE script.
var operators = []string{"||", "&&", ";"}

func checkArg(arg string) error {
	for _, r := range arg {
		if r < 0x20 || r > 0x7e {
			return fmt.Errorf("argument %q: only printable ASCII can be passed", arg)
		}
	}
	if strings.Contains(arg, "${") {
		return fmt.Errorf("argument %q: iPXE would expand ${...}", arg)
	}
	for word := range strings.FieldsSeq(arg) {
		if slices.Contains(operators, word) {
			return fmt.Errorf("argument %q: iPXE would take %q for the end of the command", arg, word)
		}
		name, _, _ := strings.Cut(word, "=")
		if slices.Contains(ours, name) {
			return fmt.Errorf("argument %q: %s is set by Pando", arg, name)
		}
	}
	return nil
}

func checkBase(base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Host == "" || u.Path != "" || u.RawQuery != "" || checkArg(base) != nil ||
		strings.ContainsAny(base, " ") {
		return fmt.Errorf("boot script: image port address %q is not http://HOST:PORT", base)
	}
	return nil
}

// text makes s safe to put after echo: one line, nothing that iPXE expands or treats as an operator.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case r < 0x20 || r > 0x7e:
			return '?'
		}
		return r
	}, s)
	words := strings.Fields(strings.ReplaceAll(s, "${", "$ {"))
	for i, w := range words {
		if slices.Contains(operators, w) {
			words[i] = "'" + w + "'"
		}
	}
	s = strings.Join(words, " ")
	return s[:min(len(s), 300)]
}
