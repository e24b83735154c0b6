package boot

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
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

// ifupdownEnv writes the environment by which `ifup -a` and `ifdown -a` leave our adapter out.
func ifupdownEnv(dir string, stderr io.Writer) int {
	ours, err := currentName(dir)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ifupdown.env"), []byte("EXCLUDE_INTERFACES="+ours+"\n"), 0o644)
	}
	if err != nil {
		fmt.Fprintln(stderr, "pando-init:", err)
		return 1
	}
	return 0
}
