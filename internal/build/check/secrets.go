package check

import (
	"fmt"
	"os"
	"pando/internal/systree"
	"path"
	"strings"
)

// Inspect lists files that must not be in an image: everybody who can reach the server can read every image, and each
// node has all of its image.
func Inspect(tree string) []string {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return []string{err.Error()}
	}
	defer root.Close()
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, f := range systree.ReadDir(root, "etc/ssh") {
		if strings.HasPrefix(f.Name(), "ssh_host_") && strings.HasSuffix(f.Name(), "_key") {
			add(
				"/etc/ssh/%s is a private key, and everyone on the network can read images; each node gets one of "+
					"its own",
				f.Name(),
			)
		}
	}
	if b, err := root.ReadFile("etc/machine-id"); err == nil {
		if id := strings.TrimSpace(string(b)); id != "" && id != "uninitialized" {
			add("/etc/machine-id is set; each node gets one of its own")
		}
	}
	if user := hashedPassword(root); user != "" {
		add("/etc/shadow has a password hash of %s, and everyone on the network can read images", user)
	}
	for _, name := range []string{"root/.ssh", "root/.aws", "root/.kube"} {
		for _, f := range systree.ReadDir(root, name) {
			if strings.HasPrefix(f.Name(), "id_") && !strings.HasSuffix(f.Name(), ".pub") || f.Name() == "credentials" {
				add("/%s looks like a secret, and everyone on the network can read images", path.Join(name, f.Name()))
			}
		}
	}
	if _, err := root.Stat("usr/lib/systemd/systemd"); err != nil {
		if _, err := root.Stat("lib/systemd/systemd"); err != nil {
			add("there is no systemd; a node boots, but does not report that it has")
		}
	}
	return out
}

// hashedPassword returns the first user of /etc/shadow with a password, or "" if none has one.
func hashedPassword(root *os.Root) string {
	b, err := root.ReadFile("etc/shadow")
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Split(line, ":"); len(f) > 1 && strings.HasPrefix(f[1], "$") {
			return f[0]
		}
	}
	return ""
}
