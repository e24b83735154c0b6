package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"pando/internal/store"
)

// rawDir is where the raw data of a page is, below the directory of its diagrams: a directory for each image, named
// as they are in the lab, so that the page can be made anew from there.
const rawDir = "raw"

// rawFiles are what else may stand beside the results of storms.
var rawFiles = []string{"alone.json", "alone-wall.json", "alone-replay.json", "k.json", "update.json"}

// keepRaw copies the results of an image, and what was measured beside them, to the diagrams of a page, and the
// picture of its screen. It returns the picture's name; "": there is none.
func keepRaw(results, dir, image string) (screen string, err error) {
	to := filepath.Join(dir, rawDir, image)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return "", err
	}
	if err := copyRaw(results, filepath.Join(to, "storm.json")); err != nil {
		return "", err
	}
	from := filepath.Dir(results)
	for _, name := range rawFiles {
		if err := copyRaw(filepath.Join(from, name), filepath.Join(to, name)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	screen = image + "-" + screenName
	shot, err := os.ReadFile(filepath.Join(from, screenName))
	if err == nil {
		err = store.WriteFile(filepath.Join(dir, screen), shot, 0o644)
	}
	if _, missing := os.Stat(filepath.Join(dir, screen)); missing != nil {
		screen = ""
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return screen, err
}

// copyRaw copies a file of JSON without its spaces.
func copyRaw(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Compact(&out, data); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return store.WriteFile(to, append(out.Bytes(), '\n'), 0o644)
}
