package rootdir

import (
	"os"

	"pando/internal/fleet"
)

func file(path, data string) fleet.File {
	return fleet.File{Path: path, Mode: 0o640, UID: os.Getuid(), GID: os.Getgid(), Data: []byte(data)}
}
