package rootdir

import (
	"pando/internal/fleet"
)

// Text is a file that all may read.
func Text(path, text string) fleet.File {
	return fleet.File{Path: path, Mode: 0o644, Data: []byte(text)}
}

// Link is a symbolic link.
func Link(path, target string) fleet.File { return fleet.File{Path: path, Target: target} }
