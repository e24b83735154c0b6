package boot

import (
	"pando/internal/fleet"
)

func textFile(path, text string) fleet.File {
	return fleet.File{Path: path, Mode: 0o644, Data: []byte(text)}
}

func linkFile(path, target string) fleet.File { return fleet.File{Path: path, Target: target} }
