package rootdir

import (
	"pando/internal/fleet"
)

// Text returns a file with mode 0644.
func Text(path, text string) fleet.File {
	return fleet.File{Path: path, Mode: 0o644, Data: []byte(text)}
}

// Link returns a symbolic link.
func Link(path, target string) fleet.File { return fleet.File{Path: path, Target: target} }
