package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"pando/internal/store"
)

// ReadJSON reads a result; nil if the file does not exist.
func ReadJSON[T any](file string) (*T, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	out := new(T)
	if err == nil {
		err = json.Unmarshal(b, out)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// SaveJSON writes a result as indented JSON.
func SaveJSON(path string, result any) error {
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	return store.WriteFile(path, append(text, '\n'), 0o644)
}
