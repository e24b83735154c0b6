package boot

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// currentName is what the image calls the adapter that the root hangs on.
func currentName(dir string) (string, error) {
	var s session
	if err := readJSON(dir, sessionName, &s); err != nil {
		return "", err
	}
	i, err := net.InterfaceByIndex(s.Interface)
	if err != nil {
		return "", fmt.Errorf("interface %d: %w", s.Interface, err)
	}
	return i.Name, nil
}

// ownNIC is the condition of ifup@NAME.service: 0 when the adapter is the image's to configure, 1 (skip the
// unit) when it is the one that the root hangs on.
func ownNIC(dir, name string, stderr io.Writer) int {
	ours, err := currentName(dir)
	if err != nil {
		fmt.Fprintln(stderr, "pando-init:", err)
		return 0
	}
	if name == ours {
		return 1
	}
	return 0
}

// ifupdownEnv writes the environment by which `ifup -a` and `ifdown -a` leave our adapter out, beside those
// that the image leaves out itself.
func ifupdownEnv(dir string, stderr io.Writer) int {
	ours, err := currentName(dir)
	if err == nil {
		line := excludeLine(os.Getenv("EXCLUDE_INTERFACES"), ours)
		err = os.WriteFile(filepath.Join(dir, "ifupdown.env"), []byte(line), 0o644)
	}
	if err != nil {
		fmt.Fprintln(stderr, "pando-init:", err)
		return 1
	}
	return 0
}

func excludeLine(others, ours string) string {
	patterns := strings.Fields(others)
	if !slices.Contains(patterns, ours) {
		patterns = append(patterns, ours)
	}
	return "EXCLUDE_INTERFACES=\"" + strings.Join(patterns, " ") + "\"\n"
}
