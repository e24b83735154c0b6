package rootdir

import (
	"pando/internal/fleet"
)

func Text(path, text string) fleet.File {
	return fleet.File{Path: path, Mode: 0o644, Data: []byte(text)}
}

func Link(path, target string) fleet.File { return fleet.File{Path: path, Target: target} }
