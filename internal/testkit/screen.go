package testkit

import (
	"bufio"
	"context"
	"fmt"
	"image"
	"image/color"
	"io"
	"os"
	"path/filepath"
)

// Screenshot returns what the machine shows on its screen. It has one if its configuration says so.
func (m *Machine) Screenshot(ctx context.Context) (*image.RGBA, error) {
	file := filepath.Join(m.Config.Dir, m.Config.Name+".ppm")
	if err := m.command(ctx, "screendump", map[string]any{"filename": file}); err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("machine %s: screenshot: %w", m.Config.Name, err)
	}
	defer f.Close()
	defer os.Remove(file)
	shot, err := decodePPM(f)
	if err != nil {
		return nil, fmt.Errorf("machine %s: screenshot: %w", m.Config.Name, err)
	}
	return shot, nil
}

// maxScreen bounds a screen in each direction, in pixels.
const maxScreen = 16384

// decodePPM reads a picture in the form that QEMU writes: binary PPM (netpbm's ppm(5)) of 8 bits without comments.
func decodePPM(r io.Reader) (*image.RGBA, error) {
	in := bufio.NewReader(r)
	var width, height, deepest int
	if _, err := fmt.Fscanf(in, "P6\n%d %d\n%d\n", &width, &height, &deepest); err != nil {
		return nil, fmt.Errorf("read PPM: %w", err)
	}
	if width < 1 || height < 1 || width > maxScreen || height > maxScreen || deepest != 255 {
		return nil, fmt.Errorf("read PPM: %d x %d pixels of up to %d", width, height, deepest)
	}
	shot := image.NewRGBA(image.Rect(0, 0, width, height))
	row := make([]byte, 3*width)
	for y := range height {
		if _, err := io.ReadFull(in, row); err != nil {
			return nil, fmt.Errorf("read PPM: row %d: %w", y, err)
		}
		for x := range width {
			shot.SetRGBA(x, y, color.RGBA{row[3*x], row[3*x+1], row[3*x+2], 255})
		}
	}
	return shot, nil
}

// Colours counts the colours of a picture: a screen that is black, or has text on it, has few.
func Colours(shot *image.RGBA) int {
	seen := map[color.RGBA]bool{}
	for y := shot.Rect.Min.Y; y < shot.Rect.Max.Y; y++ {
		for x := shot.Rect.Min.X; x < shot.Rect.Max.X; x++ {
			seen[shot.RGBAAt(x, y)] = true
		}
	}
	return len(seen)
}
