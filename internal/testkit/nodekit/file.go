package nodekit

import (
	"os"

	"pando/internal/fleet"
)

// File returns a config file that belongs to the user who runs the test.
func File(path, data string) fleet.File {
	return fleet.File{Path: path, Mode: 0o640, UID: os.Getuid(), GID: os.Getgid(), Data: []byte(data)}
}
